"""How users get distributed optimizers of Keras, whichever version it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from byteps.common.gradients.compression import Compressor, NoneCompressor
from byteps.common.gradients.exchange_options import ExchangeOptions
from byteps.common.operations.reduction import Average, ReduceOp
from byteps.common.session.process_sets import ProcessSet, global_process_set
from byteps.keras_common.settings import Settings, check_groups, layers_in


class MakesOptimizers:
    """The functions, for one version of Keras."""

    def __init__(self, wrap: Callable[[Any, Settings, Any], Any], load: Callable[..., Any]) -> None:
        """`wrap` returns a distributed optimizer that has the state of one, which trains some
        variables or, as None says, unknown ones; `load` is `load_model` of Keras."""
        self._wrap = wrap
        self._load = load

    def DistributedOptimizer(  # noqa: N802
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Compressor | type[Compressor] = NoneCompressor,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: ReduceOp = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        num_groups: int = 0,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        scale_local_gradients: bool = True,
    ) -> Any:
        """Return an optimizer that averages gradients over all ranks, then does what `optimizer`
        does.

        It is of a subclass of the optimizer's class, with the same name and the same config: what
        it saves can be loaded without byteps. Give it to `model.compile`, or use it in a loop of
        your own.

        With `backward_passes_per_step` above 1, gradients are added up for so many batches, of
        which the last one exchanges the sum; the others change no weights. With
        `average_aggregated_gradients` the sum is divided by the number of batches. On a rank that
        is not in the process set, gradients stay as they are. If a program has several distributed
        optimizers, all ranks must first use them in the same order. `device_dense`,
        `device_sparse` and `groups` are accepted and change nothing.

        With Keras 3 and the policy mixed_float16, the optimizer is put into a LossScaleOptimizer
        first.

        Example::

            optimizer = bps.DistributedOptimizer(keras.optimizers.Adam(1e-3 * bps.size()))
            model.compile(optimizer, loss="mse")
        """
        del device_dense, device_sparse
        check_groups(num_groups, groups)
        options = ExchangeOptions(
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            sparse_as_dense,
            process_set,
        )
        return self._distributed(
            optimizer, options, name, average_aggregated_gradients, None, scale_local_gradients
        )

    def PartialDistributedOptimizer(  # noqa: N802
        self,
        optimizer: Any,
        name: str | None = None,
        device_dense: str = "",
        device_sparse: str = "",
        compression: Compressor | type[Compressor] = NoneCompressor,
        sparse_as_dense: bool = False,
        gradient_predivide_factor: float = 1.0,
        op: ReduceOp = Average,
        backward_passes_per_step: int = 1,
        average_aggregated_gradients: bool = False,
        groups: Any = None,
        process_set: ProcessSet = global_process_set,
        local_layers: Any = None,
        scale_local_gradients: bool = True,
    ) -> Any:
        """Do `DistributedOptimizer`, and leave the weights of some layers to each rank.

        The gradients of `local_layers`, a layer or a list, are not exchanged. They are divided by
        the number of ranks, unless `scale_local_gradients` is False.

        Example::

            optimizer = bps.PartialDistributedOptimizer(optimizer, local_layers=[model.layers[0]])
        """
        del device_dense, device_sparse
        check_groups(0, groups)
        options = ExchangeOptions(
            compression,
            backward_passes_per_step,
            op,
            gradient_predivide_factor,
            sparse_as_dense,
            process_set,
        )
        return self._distributed(
            optimizer,
            options,
            name,
            average_aggregated_gradients,
            local_layers,
            scale_local_gradients,
        )

    def load_model(
        self,
        filepath: Any,
        custom_optimizers: Sequence[type] | None = None,
        custom_objects: dict[str, Any] | None = None,
        compression: Compressor | type[Compressor] = NoneCompressor,
        legacy_opts: bool = False,
    ) -> Any:
        """Return a model that was saved, with its optimizer, which becomes a distributed one.

        The optimizer keeps its learning rate and its state, whether byteps was there when it was
        saved or not. `custom_optimizers` are classes of the user's. `legacy_opts` is accepted and
        changes nothing.

        Example::

            model = bps.load_model("checkpoint.keras")
            model.fit(images, labels)
        """
        del legacy_opts
        objects = {one.__name__: one for one in custom_optimizers or ()}
        objects.update(custom_objects or {})
        model = self._load(filepath, custom_objects=objects)
        if getattr(model, "optimizer", None) is not None:
            options = ExchangeOptions(compression)
            options.check()
            model.optimizer = self._wrap(
                model.optimizer, Settings(options), model.trainable_variables
            )
        return model

    def _distributed(
        self,
        optimizer: Any,
        options: ExchangeOptions,
        name: str | None,
        divides_by_passes: bool,
        local_layers: Any,
        scales_local: bool,
    ) -> Any:
        options.check()
        layers = layers_in(local_layers)
        settings = Settings(options, name or "Gradient", divides_by_passes, layers, scales_local)
        return self._wrap(optimizer, settings, None)
