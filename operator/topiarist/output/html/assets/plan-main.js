// The start of the page.

startAbout();
startTotals();
startNotes();
startPermissions();
startBrokers();
startClusters();
startPage();
