#pragma once
// Until the server listens, SIGINT and SIGTERM end the process at once, whatever it is at: nobody waits for
// it, and it has nothing that must be put away. Also as the first process of a container, which the signals'
// own effect does not reach. Server::run takes them over.

namespace pagoda {

void stop_while_starting();

}  // namespace pagoda
