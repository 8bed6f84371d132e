#pragma once

namespace nanobind {
class module_;
}  // namespace nanobind

namespace byteps::python {

// Adds the function that says what the devices of this process are: device_info.
void BindDevice(nanobind::module_& module);

}  // namespace byteps::python
