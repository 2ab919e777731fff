"""The conversation between an attack and a target, and the driver that holds many of them."""
