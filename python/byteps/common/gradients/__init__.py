"""The exchange of gradients. It knows no framework."""
