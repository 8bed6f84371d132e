#include "tests/nccl_standin/standin.h"

#include <unistd.h>

#include "tests/nccl_standin/communicators.h"

using byteps::standin::NcclWorld;
using byteps::standin::TheNcclWorld;

extern "C" {

void nccl_stand_in_reset(void) {
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  world.failures.clear();
  world.held.clear();
  world.version = 22803;
  world.shares_gpus = false;
  world.broken = 0;
  for (const auto& [nonce, descriptor] : world.ids) close(descriptor);
  world.ids.clear();
  world.begun = 0;
  world.collectives = 0;
  world.bytes = 0;
  world.changed.notify_all();
}

void nccl_stand_in_fail(const char* function, int n, int code) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().failures[function] = {n, code};
}

void nccl_stand_in_break(int code) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().broken = code;
}

void nccl_stand_in_hold(const char* function) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().held.insert(function);
}

void nccl_stand_in_let_go(const char* function) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().held.erase(function);
  TheNcclWorld().changed.notify_all();
}

int nccl_stand_in_is_held(const char* function) {
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  return world.held.contains(function) && world.standing[function] > 0 ? 1 : 0;
}

void nccl_stand_in_version(int code) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().version = code;
}

void nccl_stand_in_share_gpus(void) {
  std::lock_guard lock(TheNcclWorld().mutex);
  TheNcclWorld().shares_gpus = true;
}

nccl_stand_in_counts nccl_stand_in_count(void) {
  NcclWorld& world = TheNcclWorld();
  std::lock_guard lock(world.mutex);
  nccl_stand_in_counts counts{};
  counts.communicators = static_cast<int>(world.all.size());
  counts.ids = static_cast<int>(world.ids.size());
  counts.begun = world.begun;
  counts.collectives = world.collectives;
  counts.bytes = world.bytes;
  return counts;
}

}  // extern "C"
