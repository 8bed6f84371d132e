// How OpenSSL begins in this process.
#pragma once

namespace byteps {

// Call it before anything else of OpenSSL. Its own cleanup at the exit of the process is switched
// off: threads of ours may still be using it then, when a program ends without closing the job.
// Thread-safe, and cheap when it is not the first call.
void StartCrypto();

}  // namespace byteps
