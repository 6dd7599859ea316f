#pragma once
// Log lines for the operator, on stderr, in vLLM's format: "INFO 08-17 13:20:50 [engine] message", or as
// JSON:
// {"time":"2025-08-17T11:20:50.123Z","level":"info","component":"engine","message":"..."}.
// Never contain prompts, outputs or keys. Control characters in a message are escaped.
// Threads: any. Source of the format: vLLM's default logger.
#include <string>
#include <string_view>

namespace pagoda {

enum class LogLevel { debug, info, warning, error, off };

enum class LogFormat { text, json };

void set_log_format(LogFormat format);
LogFormat log_format();  // checked before printing to stderr: a JSON log must contain nothing else
void set_log_level(LogLevel level);  // default info; PAGODA_LOGGING_LEVEL is read by cli/
void log_debug(std::string_view component, std::string_view message);
void log_info(std::string_view component, std::string_view message);
void log_warning(std::string_view component, std::string_view message);
void log_error(std::string_view component, std::string_view message);

// For log_thread.cc: the formatted line, including its newline.
std::string log_line(LogLevel level, std::string_view component, std::string_view message);

}  // namespace pagoda
