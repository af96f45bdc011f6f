// The start of the page.

startFirst();
startUrgent();
startTotals();
startSeverity();
startTrend();
startGaps();
startCauses();
startBetween();
startAccepted();
startUpgrade();
startHeat();
startOthers();
startRepairs();
startPage();
