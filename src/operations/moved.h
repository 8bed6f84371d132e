// Spans of operations that move rows from rank to rank, for the table in rows.cc.
#pragma once

#include <algorithm>
#include <string>

#include "src/operations/row.h"

namespace byteps::operations {

// Reducescatter: sections of a reduced tensor, one for each rank.
LaidOut LayOutScatter(const Work& work, const std::vector<bool>& present, uint64_t most);
Part OutputOfScatter(const Work& work);
Spans SpansOfScatter(const Work& work, const plan::SectionPiece& piece);

// Allgather: every rank gets the rows of all ranks, rank after rank.
LaidOut LayOutGather(const Work& work, const std::vector<bool>& present, uint64_t most);
Spans SpansOfGather(const Work& work, const plan::SectionPiece& piece);
bool BringsGathered(const Work& work, uint32_t place);

// Alltoall: each rank sends rows to each other rank.
LaidOut LayOutAlltoall(const Work& work, const std::vector<bool>& present, uint64_t most);
Spans SpansOfAlltoall(const Work& work, const plan::SectionPiece& piece);
bool BringsToOthers(const Work& work, uint32_t place);

// Returns the part of [own_begin, own_end) that lies in a piece at `offset`.
Part PartIn(uint64_t offset, uint32_t bytes, uint64_t own_begin, uint64_t own_end);

// Adds, and returns UINT64_MAX in place of an overflow.
inline uint64_t Plus(uint64_t a, uint64_t b) { return a + std::min(b, UINT64_MAX - a); }

// Returns "allgather 'x'".
std::string Called(const Work& work);

}  // namespace byteps::operations
