// Everything is drawn: whoever waits for the page may look.

document.documentElement.dataset.ready = "yes";
