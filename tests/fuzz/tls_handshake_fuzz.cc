// Bytes that a client may send instead of a handshake, and after it: any bytes, in any pieces. OpenSSL is not
// the aim (it is fuzzed elsewhere); our loop around it is: it ends, with an error or not, and leaves nothing
// behind.
// links: server
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "server/transport/transport.h"

namespace {

namespace asio = boost::asio;
using pagoda::TlsContext;
using pagoda::Transport;

std::shared_ptr<const TlsContext> make_context() {
  char path[] = "/tmp/pagoda-tls-fuzz-XXXXXX";
  std::FILE* const file = fdopen(mkstemp(path), "w");
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = X509_new();
  X509_gmtime_adj(X509_getm_notBefore(certificate), -60);
  X509_gmtime_adj(X509_getm_notAfter(certificate), 360'000);
  X509_set_pubkey(certificate, key);
  X509_sign(certificate, key, EVP_sha256());
  PEM_write_PrivateKey(file, key, nullptr, nullptr, 0, nullptr, nullptr);
  PEM_write_X509(file, certificate);
  std::fclose(file);
  X509_free(certificate);
  EVP_PKEY_free(key);
  auto context = TlsContext::load({.certificates = path, .key = {}, .client_ca = {}});
  unlink(path);
  if (!context) std::abort();
  return *context;
}

// Shakes hands, then reads and writes as a connection does.
asio::awaitable<void> talk(std::shared_ptr<Transport> transport, bool& ended) {
  char space[256];
  if (!co_await transport->handshake()) {
    for (int i = 0; i < 8; ++i) {
      const Transport::Read read = co_await transport->read_some(asio::buffer(space));
      if (read.error) break;
      if (read.count > sizeof space) std::abort();
      boost::system::error_code error;
      transport->write_now({space, read.count}, error);
    }
  }
  transport->close();
  ended = true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const TlsContext> context = make_context();
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  bool ended = false;
  {
    asio::io_context io(1);
    Transport::Socket socket(io);
    socket.assign(asio::local::stream_protocol(), ends[0]);
    auto transport = std::make_shared<Transport>(std::move(socket), context);
    asio::co_spawn(io, talk(transport, ended), asio::detached);
    transport.reset();
    // In pieces as long as their first byte says.
    while (size > 0) {
      const std::size_t piece = std::min<std::size_t>(size, std::size_t{1} + data[0] * 4);
      if (send(ends[1], data, piece, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
      data += piece;
      size -= piece;
      io.poll();
    }
    shutdown(ends[1], SHUT_WR);
    // The other side takes nothing: whatever was to be sent fits a socket's buffer.
    io.run();
  }
  close(ends[1]);
  if (!ended) std::abort();
  return 0;
}
