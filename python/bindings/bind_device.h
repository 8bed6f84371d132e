#pragma once

namespace nanobind {
class module_;
}  // namespace nanobind

namespace byteps::python {

// Adds the functions that say what the devices of this process are, which NCCL there is, and which
// way sums take: device_info, nccl_info, foresee_device_sums.
void BindDevice(nanobind::module_& module);

}  // namespace byteps::python
