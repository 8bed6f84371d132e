#include "src/transport/tcp/tls_channel.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>

#include "src/base/crypto_start.h"
#include "src/transport/tcp/tls_record.h"

namespace byteps::transport {
namespace {

constexpr size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
// Several records to a system call: one for each costs a third more CPU over loopback. What is
// sealed cannot be overtaken any more, and takes this much memory of each connection and direction.
// Two pieces of 32 KB fit, with what stands before and around them.
constexpr size_t kRecordsBytes = size_t{80} * 1024;
constexpr size_t kSealedBytes = size_t{80} * 1024;
// A process may have a thousand connections whose peers have proved nothing, so these get little
// memory: more than all that a handshake says.
constexpr size_t kHandshakeBytes = size_t{4} * 1024;
// What OpenSSL holds of a record whose end has not come.
constexpr size_t kHeldBytesMax = SSL3_RT_MAX_PACKET_SIZE;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

using Context = std::unique_ptr<SSL_CTX, Free<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL_SESSION, Free<SSL_SESSION_free>>;
using Method = std::unique_ptr<BIO_METHOD, Free<BIO_meth_free>>;

// The bytes of several parts, as records.
class Records {
 public:
  explicit Records(std::span<const iovec> parts) : parts_(parts) { SkipThrough(); }

  bool empty() const { return parts_.empty(); }

  // The next one, where it lies if it lies in one place, else gathered.
  ConstByteSpan Next() {
    const iovec& first = parts_.front();
    if (first.iov_len - begin_ >= kRecordBytes || parts_.size() == 1) return Take();
    size_t bytes = 0;
    while (!parts_.empty() && bytes < kRecordBytes) {
      ConstByteSpan piece = Take(kRecordBytes - bytes);
      std::memcpy(gathered_.data() + bytes, piece.data(), piece.size());
      bytes += piece.size();
    }
    return ConstByteSpan(gathered_).first(bytes);
  }

 private:
  ConstByteSpan Take(size_t bytes_max = kRecordBytes) {
    const iovec& part = parts_.front();
    size_t bytes = std::min(part.iov_len - begin_, bytes_max);
    ConstByteSpan taken(static_cast<const std::byte*>(part.iov_base) + begin_, bytes);
    begin_ += bytes;
    SkipThrough();
    return taken;
  }

  void SkipThrough() {
    while (!parts_.empty() && begin_ == parts_.front().iov_len) {
      parts_ = parts_.subspan(1);
      begin_ = 0;
    }
  }

  std::span<const iovec> parts_;
  size_t begin_ = 0;  // of the first part
  std::array<std::byte, kRecordBytes> gathered_;
};

// The socket as OpenSSL sees it: one that takes everything, for what is sealed is kept here until
// it is sent. Else OpenSSL would want to see the same bytes again, and until then the user could
// neither change his mind about what leaves next nor have his memory back.
class Socket {
 public:
  // Memory is taken here and in OnOpen: nothing may be thrown below OpenSSL.
  explicit Socket(int descriptor) : descriptor_(descriptor) { unsent_.reserve(kHandshakeBytes); }

  // The peer has the key.
  void OnOpen() { unsent_.reserve(kSealedBytes + 2 * SSL3_RT_MAX_PACKET_SIZE); }

  // As in ByteChannel, of one pass: a short read says that the next would find nothing.
  void BeginPass() { drained_ = false; }

  int Read(std::byte* place, size_t size, BIO* bio) {
    if (drained_) return Again(bio);
    ssize_t count = recv(descriptor_, place, size, MSG_DONTWAIT);
    if (count > 0) {
      auto received = static_cast<size_t>(count);
      Note(ConstByteSpan(place, received));
      drained_ = received < size;
      return static_cast<int>(count);
    }
    if (count == 0) {
      stop_ = ByteChannel::kEndOfStream;
      return 0;
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return Again(bio);
    stop_ = errno;
    return -1;
  }

  int Write(ConstByteSpan bytes) {
    unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
    return static_cast<int>(bytes.size());
  }

  // kThrough when nothing is left.
  int SendUnsent() {
    while (unsent_bytes() > 0) {
      ssize_t count = send(descriptor_, unsent_.data() + unsent_begin_, unsent_bytes(),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count >= 0) {
        unsent_begin_ += static_cast<size_t>(count);
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return EAGAIN;
      } else if (errno != EINTR) {
        return stop_ = errno;
      }
    }
    unsent_.clear();
    unsent_begin_ = 0;
    return ByteChannel::kThrough;
  }

  size_t unsent_bytes() const { return unsent_.size() - unsent_begin_; }
  // What the system said when a call failed; kThrough: nothing.
  int stop() const { return stop_; }
  // Whether what came first is TLS at all.
  bool tls() const { return noted_ < begin_.size() || BeginsAsTls(begin_); }

 private:
  void Note(ConstByteSpan received) {
    for (size_t i = 0; i < received.size() && noted_ < begin_.size(); ++i) {
      begin_[noted_++] = received[i];
    }
  }

  static int Again(BIO* bio) {
    BIO_set_retry_read(bio);
    return -1;
  }

  const int descriptor_;
  int stop_ = ByteChannel::kThrough;
  bool drained_ = false;
  std::array<std::byte, kTlsBeginBytes> begin_{};  // of what came
  size_t noted_ = 0;                               // bytes of it
  std::vector<std::byte> unsent_;
  size_t unsent_begin_ = 0;
};

Socket& SocketOf(BIO* bio) { return *static_cast<Socket*>(BIO_get_data(bio)); }

int ReadBio(BIO* bio, char* place, int size) {
  BIO_clear_retry_flags(bio);
  return SocketOf(bio).Read(reinterpret_cast<std::byte*>(place), static_cast<size_t>(size), bio);
}

int WriteBio(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  return SocketOf(bio).Write(std::as_bytes(std::span(bytes, static_cast<size_t>(size))));
}

long ControlBio(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

Method MakeMethod() {
  // Without an index of its own, of which a process has no more than a hundred.
  Method method(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "byteps"));
  bool complete = method != nullptr && BIO_meth_set_read(method.get(), ReadBio) == 1 &&
                  BIO_meth_set_write(method.get(), WriteBio) == 1 &&
                  BIO_meth_set_ctrl(method.get(), ControlBio) == 1;
  return complete ? std::move(method) : nullptr;
}

class TlsChannel final : public ByteChannel {
 public:
  TlsChannel(SSL_CTX* context, const BIO_METHOD* method, int socket, ByteChannels::Side side,
             uint64_t records_max)
      : socket_(socket), ssl_(SSL_new(context)), records_max_(records_max) {
    BIO* bio = BIO_new(method);
    if (ssl_ == nullptr || bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, &socket_);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (side == ByteChannels::Side::kConnected) {
      SSL_set_connect_state(ssl_.get());
      SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // nobody has a certificate to show
    } else {
      SSL_set_accept_state(ssl_.get());
    }
  }

  int Open() override {
    if (open_ || trouble_.code() != StatusCode::kOk) return open_ ? kThrough : EPROTO;
    ERR_clear_error();
    socket_.BeginPass();
    int done = SSL_do_handshake(ssl_.get());
    int stop = done == 1 ? kThrough : Stop(done);
    socket_.SendUnsent();  // what is left is in unsent_bytes
    if (stop != kThrough) return stop;
    // Whoever got this far without the key has found a hole in TLS.
    if (SSL_session_reused(ssl_.get()) != 1 || SSL_version(ssl_.get()) != TLS1_3_VERSION ||
        !TakeBinding()) {
      trouble_ = {StatusCode::kRefused, "it did not prove that it has the key of the job"};
      return EPROTO;
    }
    socket_.OnOpen();
    // The handshake's buffers are empty, because OpenSSL has not read ahead. It makes larger ones.
    SSL_free_buffers(ssl_.get());
    SSL_set_read_ahead(ssl_.get(), 1);
    SSL_set_default_read_buffer_len(ssl_.get(), kRecordsBytes);
    open_ = true;
    return kThrough;
  }

  Passed Receive(std::span<const iovec> parts) override {
    Passed passed;
    ERR_clear_error();
    socket_.BeginPass();
    for (const iovec& part : parts) {
      for (size_t filled = 0; filled < part.iov_len;) {
        size_t count = 0;
        int done = SSL_read_ex(ssl_.get(), static_cast<std::byte*>(part.iov_base) + filled,
                               part.iov_len - filled, &count);
        if (done != 1) {
          passed.stop = Stop(done);
          socket_.SendUnsent();  // an alert
          return passed;
        }
        filled += count;
        passed.bytes += count;
      }
    }
    return passed;
  }

  Passed Send(std::span<const iovec> parts) override {
    Passed passed;
    passed.stop = socket_.SendUnsent();
    ERR_clear_error();
    for (Records records(parts); passed.stop == kThrough && !records.empty();) {
      ConstByteSpan record = records.Next();
      size_t taken = 0;
      int done = SSL_write_ex(ssl_.get(), record.data(), record.size(), &taken);
      passed.bytes += taken;
      passed.stop = done == 1 ? kThrough : Stop(done);
      bool enough = records.empty() || socket_.unsent_bytes() >= kSealedBytes;
      if (passed.stop == kThrough && enough) passed.stop = socket_.SendUnsent();
      if (++records_ % records_max_ == 0 && !ChangeKeySoon()) passed.stop = Stop(0);
    }
    return passed;
  }

  size_t unsent_bytes() const override { return socket_.unsent_bytes(); }
  size_t held_bytes_max() const override { return kHeldBytesMax; }
  ConstByteSpan binding() const override { return open_ ? binding_ : ConstByteSpan(); }
  Status Trouble() const override { return trouble_; }

 private:
  bool TakeBinding() {
    constexpr std::string_view kLabel = "EXPORTER-byteps-handshake";
    return SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(binding_.data()),
                                      binding_.size(), kLabel.data(), kLabel.size(), nullptr, 0,
                                      0) == 1;
  }

  // Before the next record.
  bool ChangeKeySoon() { return SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) == 1; }

  // What a call that is not done says.
  int Stop(int done) {
    if (!trouble_.ok()) return EPROTO;
    int error = SSL_get_error(ssl_.get(), done);
    if (error == SSL_ERROR_WANT_READ) return EAGAIN;
    if (error == SSL_ERROR_ZERO_RETURN) return kEndOfStream;
    if (socket_.stop() != kThrough) return socket_.stop();
    trouble_ = open_ ? Broken() : Refused();
    if (!socket_.tls()) socket_.Write(kTlsRefusal);
    return EPROTO;
  }

  Status Broken() const {
    const char* reason = ERR_reason_error_string(ERR_peek_error());
    return {StatusCode::kPeerLost, std::string("what came was changed on its way (TLS: ") +
                                       (reason == nullptr ? "no reason" : reason) + ")"};
  }

  Status Refused() const {
    auto error = ERR_peek_error();
    int reason = ERR_GET_REASON(error);
    if (!socket_.tls() || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION) {
      return {StatusCode::kRefused,
              "it does not speak TLS as this process does; BYTEPS_TLS must be the same everywhere"};
    }
    const char* text = ERR_reason_error_string(error);
    return {StatusCode::kRefused,
            "it has not the same key for TLS; BYTEPS_JOB_ID and BYTEPS_JOB_SECRET must be the same "
            "everywhere (" +
                std::string(text == nullptr ? "no reason" : text) + ")"};
  }

  Socket socket_;
  std::unique_ptr<SSL, Free<SSL_free>> ssl_;
  const uint64_t records_max_;
  uint64_t records_ = 0;
  bool open_ = false;
  std::array<std::byte, 32> binding_{};
  Status trouble_;
};

class TlsChannels final : public ByteChannels {
 public:
  explicit TlsChannels(const TlsKey& key) : key_(key), method_(MakeMethod()) {}

  // False: this OpenSSL lacks something.
  bool Prepare() {
    context_.reset(SSL_CTX_new(TLS_method()));
    SSL_CTX* context = context_.get();
    if (context == nullptr || method_ == nullptr) return false;
    // Everything that a configuration file of the system could have changed is said here.
    SSL_CTX_clear_options(context, SSL_CTX_get_options(context));
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_security_level(context, 2);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_app_data(context, this);
    SSL_CTX_set_psk_use_session_callback(context, UseKey);
    SSL_CTX_set_psk_find_session_callback(context, FindKey);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set1_groups_list(context, "X25519") == 1 &&
           SSL_CTX_set_num_tickets(context, 0) == 1;
  }

  std::unique_ptr<ByteChannel> Make(int socket, Side side) const override {
    return std::make_unique<TlsChannel>(context_.get(), method_.get(), socket, side,
                                        key_.records_max);
  }

 private:
  static const TlsChannels& Of(SSL* ssl) {
    return *static_cast<const TlsChannels*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  // A new one for each connection, which writes to it.
  Session KeyAsSession(SSL* ssl) const {
    constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};
    const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
    Session session(SSL_SESSION_new());
    const auto* bytes = reinterpret_cast<const unsigned char*>(key_.bytes.data());
    bool complete = suite != nullptr && session != nullptr &&
                    SSL_SESSION_set1_master_key(session.get(), bytes, key_.bytes.size()) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), suite) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
    return complete ? std::move(session) : nullptr;
  }

  static int UseKey(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* identity_bytes,
                    SSL_SESSION** session) {
    const TlsChannels& channels = Of(ssl);
    *identity = reinterpret_cast<const unsigned char*>(channels.key_.identity.data());
    *identity_bytes = channels.key_.identity.size();
    *session = channels.KeyAsSession(ssl).release();
    return *session != nullptr ? 1 : 0;
  }

  // Who names another key gets none, and there is no certificate: the handshake ends.
  static int FindKey(SSL* ssl, const unsigned char* identity, size_t identity_bytes,
                     SSL_SESSION** session) {
    const TlsChannels& channels = Of(ssl);
    std::string_view named(reinterpret_cast<const char*>(identity), identity_bytes);
    *session = nullptr;
    if (named != channels.key_.identity) return 1;
    *session = channels.KeyAsSession(ssl).release();
    return *session != nullptr ? 1 : 0;
  }

  const TlsKey key_;
  const Method method_;
  Context context_;
};

}  // namespace

Result<std::unique_ptr<ByteChannels>> MakeTlsChannels(const TlsKey& key) {
  StartCrypto();
  auto channels = std::make_unique<TlsChannels>(key);
  if (channels->Prepare()) return std::unique_ptr<ByteChannels>(std::move(channels));
  const char* reason = ERR_reason_error_string(ERR_peek_error());
  return Status(StatusCode::kInternal, std::string("this OpenSSL cannot do what TLS needs: ") +
                                           (reason == nullptr ? "no reason" : reason));
}

}  // namespace byteps::transport
