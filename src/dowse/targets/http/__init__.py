"""A model server that speaks the Open Inference Protocol as a target."""
