// Finds the groups of a machine's devices, in the job of some options.
#pragma once

#include "src/config/options.h"
#include "src/machine/room/device_group.h"
#include "src/session/device/device_forecast.h"

namespace byteps::session {

// Returns whether groups of devices may sum on some machine of the job of these options.
bool DevicesMayAdd(const config::Options& options);

// Returns whether a user wants groups of devices where the plan finds some.
bool WantsGroups(const config::Options& options);

// Returns no tools where a user does not want groups. `look` is called for each plan.
machine::GroupTools GroupToolsOf(const config::Options& options, LookAtDevices look);

}  // namespace byteps::session
