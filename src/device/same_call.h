// Compares declarations of functions with those of NVIDIA's headers, while the compiler reads them.
#pragma once

#include <type_traits>

namespace byteps::device {

// Says whether a struct of ours may stand for one of NVIDIA's. A check may say otherwise of a pair.
template <typename Ours, typename Theirs>
constexpr bool kSameStruct = sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);

// Returns whether two types travel alike in a call: they are the same, or NVIDIA's is an
// enumeration of the size of our number, or both are structs that stand for each other, or both
// point to such types.
template <typename Ours, typename Theirs>
constexpr bool TravelsAlike() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    return TravelsAlike<std::remove_pointer_t<Ours>, std::remove_pointer_t<Theirs>>();
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_class_v<Ours> && std::is_class_v<Theirs>) {
    return kSameStruct<Ours, Theirs>;
  } else {
    return false;
  }
}

template <typename Ours, typename Theirs>
constexpr bool kSameCall = false;
template <typename Back, typename... Parameters, typename TheirBack, typename... TheirParameters>
constexpr bool kSameCall<Back (*)(Parameters...), TheirBack (*)(TheirParameters...)> = [] {
  if constexpr (sizeof...(Parameters) == sizeof...(TheirParameters)) {
    return (TravelsAlike<Back, TheirBack>() && ... && TravelsAlike<Parameters, TheirParameters>());
  } else {
    return false;
  }
}();

}  // namespace byteps::device
