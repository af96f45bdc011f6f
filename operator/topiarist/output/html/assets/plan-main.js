// The start of the page.

byId("table").classList.toggle("few", rows.length < 7); // a few rows need no room for more
startAbout();
startTotals();
startNotes();
startPermissions();
startBrokers();
startClusters();
startPage();
