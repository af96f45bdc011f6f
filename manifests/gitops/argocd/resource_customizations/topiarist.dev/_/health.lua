local is, ready = {}, {}
for _, condition in ipairs((obj.status or {}).conditions or {}) do
  is[condition.type] = condition.status
  if condition.type == "Ready" then
    ready = condition
  end
end
if is.Ready == nil or obj.status.observedGeneration ~= obj.metadata.generation then
  return {status = "Progressing", message = "the operator has not looked at it yet"}
end
local message = ready.reason .. ": " .. ready.message
if is.DriftDetected == "True" and ready.reason ~= "DriftDetected" then
  message = "DriftDetected, " .. message
end
if is.Reconciling == "True" then
  return {status = "Progressing", message = message}
elseif is.Stalled == "True" then
  return {status = "Degraded", message = message}
elseif is.Ready == "Unknown" then
  return {status = "Suspended", message = message}
elseif obj.metadata.deletionTimestamp ~= nil then
  return {status = "Progressing", message = "being deleted; " .. message}
elseif is.Ready == "True" then
  return {status = "Healthy", message = message}
end
return {status = "Progressing", message = message}
