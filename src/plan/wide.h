// 128-bit products, which compare two ratios of 64-bit numbers exactly, without a division.
#pragma once

namespace byteps::plan {

__extension__ typedef unsigned __int128 Uint128;

}  // namespace byteps::plan
