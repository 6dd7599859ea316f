#pragma once
// Log lines for the operator, on stderr, in vLLM's form: "INFO 08-17 13:20:50 [engine] message".
// Never holds prompts, outputs or keys. Control characters in a message are escaped.
// Threads: any. Source of the form: vLLM's default logger.
#include <string_view>

namespace pagoda {

enum class LogLevel { debug, info, warning, error, off };

void set_log_level(LogLevel level);  // default info; PAGODA_LOGGING_LEVEL is read by cli/
void log_debug(std::string_view component, std::string_view message);
void log_info(std::string_view component, std::string_view message);
void log_warning(std::string_view component, std::string_view message);
void log_error(std::string_view component, std::string_view message);

}  // namespace pagoda
