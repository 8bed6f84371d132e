"""What `byteps.keras` (Keras 3) and `byteps.tensorflow.keras` (Keras 2) have in common.

It imports no Keras: a `Keras` tells what one of them is like.
"""
