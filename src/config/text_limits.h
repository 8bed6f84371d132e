// Checks of the texts of options.
#pragma once

#include <cstdint>
#include <string_view>

namespace byteps::config {

inline constexpr int64_t kMachinesMax = 65536;
inline constexpr int64_t kLocalSizeMax = 1024;

inline constexpr std::string_view kHostLimit = "a host name or an IP address without brackets";
inline constexpr std::string_view kNameLimit = "letters, digits, '.', '_' and '-', at most 64";

bool IsPlainName(std::string_view text);
bool IsPlainNameOrEmpty(std::string_view text);
// Accepts a name or an address: no white space, no separators of other formats.
bool IsHostOrEmpty(std::string_view text);
bool IsCidrOrEmpty(std::string_view text);
// Accepts "eth0,eth1": at most as many as a server may announce, each once.
bool IsInterfacesOrEmpty(std::string_view text);
// Accepts "2,1": a number for each machine.
bool IsLocalSizesOrEmpty(std::string_view text);
// Accepts "0,4".
bool IsLocalRanksOrEmpty(std::string_view text);

}  // namespace byteps::config
