"""Tables, figures and the report page, including the published numbers."""
