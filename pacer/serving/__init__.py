"""Use of a trained model: export, reports of one or many cases, and the web page."""
