// The start of the page.

startUrgent();
startTotals();
startSeverity();
startTrend();
startGaps();
startAccepted();
startUpgrade();
startHeat();
startOthers();
startPage();
