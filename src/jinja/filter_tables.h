#pragma once
// The tables of filters, one per source file.
#include <span>

#include "jinja/filters.h"

namespace pagoda::jinja {

std::span<const NamedFunction> text_filters();      // filters_text.cc
std::span<const NamedFunction> number_filters();    // filters_number.cc
std::span<const NamedFunction> sequence_filters();  // filters_sequence.cc
std::span<const NamedFunction> select_filters();    // filters_select.cc
std::span<const NamedFunction> markup_filters();    // filters_markup.cc

}  // namespace pagoda::jinja
