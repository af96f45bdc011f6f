-- Questions to the history of drift reports (topiarist drift --history), for DuckDB and Spark SQL. The views findings, runs and
-- teams are those of docs/drift-reference.md.

-- query: old
-- Which teams have findings of the last run that are older than 30 days?
SELECT responsible, count(*) AS findings, max(ageSeconds) / 86400 AS oldest_days
FROM findings
WHERE runAt = (SELECT max(runAt) FROM runs) AND status IN ('New', 'Unchanged', 'NotEvaluated')
  AND exception IS NULL AND ageSeconds > 30 * 86400
GROUP BY responsible
ORDER BY findings DESC, responsible;

-- query: repair
-- How long does a repair take, by class and month?
SELECT class, year(date) AS year, month(date) AS month, count(*) AS resolved, avg(ageSeconds - acceptedSeconds) / 3600 AS mean_hours
FROM findings
WHERE status = 'Resolved' AND exception IS NULL
GROUP BY class, year(date), month(date)
ORDER BY class, year, month;

-- query: flapping
-- Which topics flap?
SELECT cluster, topic, class, field, max(episodes) AS episodes
FROM findings
WHERE status = 'New' AND episodes > 1
GROUP BY cluster, topic, class, field
ORDER BY episodes DESC, cluster, topic, class, field
LIMIT 20;

-- query: unjudged
-- How much of the fleet was not judged, by day?
SELECT CAST(date AS VARCHAR(10)) AS day, 100 * sum(topicsDeclared - topicsCompared) / sum(topicsDeclared) AS percent_not_judged
FROM runs
WHERE topicsDeclared > 0
GROUP BY date
ORDER BY date;

-- query: slo
-- Which share of its topics did each team have in step, by month?
SELECT responsible, year(date) AS year, month(date) AS month, 100 * sum(inStep) / sum(topics) AS percent_in_step
FROM teams
GROUP BY responsible, year(date), month(date)
ORDER BY responsible, year, month;
