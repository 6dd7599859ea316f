#pragma once
// Makes SIGINT and SIGTERM end the process at once until the server listens: no client is waiting and nothing
// needs cleanup. Also works for the first process of a container, for which the default action of the signals
// is ignored. Server::run replaces the handlers.

namespace pagoda {

void stop_while_starting();

}  // namespace pagoda
