// Any bytes as a trace in each form, and as a workload spec. The first byte chooses the form.
// links: load
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "load/workload_spec.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  (void)pagoda::parse_workload_spec(text);
  pagoda::TraceOptions options;
  options.form = static_cast<pagoda::TraceForm>(data[0] % 6);
  options.max_rounds = options.form == pagoda::TraceForm::sharegpt ? 1 + data[0] / 64 : 1;
  auto trace = pagoda::read_trace(std::make_unique<std::istringstream>(text), "t", options);
  if (!trace) return 0;
  double last = 0;
  for (;;) {
    const auto request = (*trace)->next();
    if (!request) {
      if (!request.error().message().starts_with("t:")) std::abort();  // every refusal names its line
      return 0;
    }
    if (!*request) return 0;
    if ((*request)->prompt_tokens < 1 || (*request)->output_tokens < 1) std::abort();
    const double arrival = (*request)->arrival_s;
    if (!std::isnan(arrival) && !(arrival >= last && arrival <= 1e10)) std::abort();
    last = std::isnan(arrival) ? last : arrival;
  }
}
