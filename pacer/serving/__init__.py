"""Use of a trained model: export, reports for one or many cases, and the web page."""
