"""The generated world: patients, radiographs, reports, and labelling answers for the reports."""
