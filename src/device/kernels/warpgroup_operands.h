#pragma once
// The sums of a warpgroup product as inline PTX names them: `s`, the sums of a thread (four for each eight
// columns), as operands; and the matching numbered words in the instruction's text.
#define PAGODA_EIGHT(i) "+f"(s[i][0]), "+f"(s[i][1]), "+f"(s[i][2]), "+f"(s[i][3])
#define PAGODA_EIGHTS_4(i) PAGODA_EIGHT(i), PAGODA_EIGHT(i + 1), PAGODA_EIGHT(i + 2), PAGODA_EIGHT(i + 3)
#define PAGODA_EIGHTS(i) PAGODA_EIGHTS_4(i), PAGODA_EIGHTS_4(i + 4)
#define PAGODA_WORDS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PAGODA_WORDS_24 PAGODA_WORDS_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define PAGODA_WORDS_32 PAGODA_WORDS_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define PAGODA_WORDS_56                                                                        \
  PAGODA_WORDS_32                                                                              \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49" \
  ", %50, %51, %52, %53, %54, %55"
#define PAGODA_WORDS_64 PAGODA_WORDS_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define PAGODA_WORDS_96                                                                        \
  PAGODA_WORDS_64                                                                              \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81" \
  ", %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PAGODA_WORDS_128                                                                       \
  PAGODA_WORDS_96                                                                              \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110"     \
  ", %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125" \
  ", %126, %127"
