"""The generated world: patients, radiographs, reports, and the labelling answers that go with them."""
