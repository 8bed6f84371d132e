// The rows of the options that are about GPUs, at the end of the table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>

#include "src/config/option_rows.h"
#include "src/config/text_limits.h"

namespace byteps::config {

inline constexpr OptionRow kDeviceRows[] = {
    {.name = "cuda_library",
     .variable = "BYTEPS_CUDA_LIBRARY",
     .field = &Options::cuda_library,
     .readers = kByWorker,
     .help = "File of the CUDA driver's library, by which tensors in the memory of a GPU are "
             "reached; empty: the libcuda.so.1 that the system finds."},
    {.name = "nccl_library",
     .variable = "BYTEPS_NCCL_LIBRARY",
     .field = &Options::nccl_library,
     .readers = kByWorker,
     .help = "File of NCCL, by which the GPUs of a machine sum among themselves; empty: the loaded "
             "one, or the libnccl.so.2 that the system finds."},
    {.name = "nvml_library",
     .variable = "BYTEPS_NVML_LIBRARY",
     .field = &Options::nvml_library,
     .readers = kByWorker,
     .help = "File of NVML, which says which GPUs of the machine reach each other; empty: the "
             "libnvidia-ml.so.1 that the system finds."},
    {.name = "device_sums",
     .variable = "BYTEPS_DEVICE_SUMS",
     .field = &Options::device_sums,
     .readers = kByWorker,
     .choices = "auto, window, nccl, host",
     .help =
         "How the ranks of a machine sum tensors in the memory of GPUs. window: each GPU copies "
         "to the host, and the ranks sum there. nccl: GPUs that reach each other sum "
         "among themselves first. auto: nccl where copies, and not the network, would be the "
         "bound, else window; no GPU has run it yet. host: the library reaches no "
         "GPU, so a framework copies through host memory."},
    {.name = "pcie_switch_size",
     .variable = "BYTEPS_PCIE_SWITCH_SIZE",
     .field = &Options::pcie_switch_size,
     .readers = kByWorker,
     .maximum = kLocalSizeMax,
     .help = "Ranks whose GPUs share a link to the CPU, first local ranks 0 to "
             "pcie_switch_size - 1, and so on; 0: as the machine's PCI bus says. It "
             "changes which GPUs sum among themselves."},
    {.name = "reduce_roots",
     .variable = "BYTEPS_REDUCE_ROOTS",
     .field = &Options::reduce_roots,
     .readers = kByWorker,
     .text_limit = "local ranks below 1024, separated by commas",
     .text_allowed = IsLocalRanksOrEmpty,
     .help = "The local ranks whose GPUs carry sums of a group of GPUs to the host, such as "
             "0,4; empty: all. It changes which ranks copy such a sum."},
};

// Returns all rows, those of GPUs at the end.
template <size_t count>
constexpr auto WithDeviceRows(const OptionRow (&rows)[count]) {
  std::array<OptionRow, count + std::size(kDeviceRows)> all{};
  std::ranges::copy(kDeviceRows, std::ranges::copy(rows, all.begin()).out);
  return all;
}

}  // namespace byteps::config
