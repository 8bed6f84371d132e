"""A user's program for Keras 3, as a checker of types sees it. Never run."""

import keras

import byteps.keras as bps

bps.init()
optimizer = bps.DistributedOptimizer(keras.optimizers.Adam(), backward_passes_per_step=2)
model = bps.load_model("model.keras", compression=bps.Compression.fp16)
callbacks = [
    bps.callbacks.BroadcastGlobalVariablesCallback(0),
    bps.callbacks.MetricAverageCallback(),
    bps.callbacks.LearningRateWarmupCallback(initial_lr=0.1, warmup_epochs=3),
]
mean = bps.allreduce(3.0, name="loss", op=bps.Max)
bps.broadcast_variables(model.weights, root_rank=0)
with bps.typed_errors():
    model.fit(callbacks=callbacks)
every: list[object] = bps.allgather_object(bps.rank())

bps.DistributedOptimizer(keras.optimizers.Adam(), passes=2)  # type: ignore[call-arg]
bps.allreduce(3.0, op=1)  # type: ignore[arg-type]
bps.callback.MetricAverageCallback()  # type: ignore[attr-defined]
bps.elastic  # type: ignore[attr-defined]  # noqa: B018
