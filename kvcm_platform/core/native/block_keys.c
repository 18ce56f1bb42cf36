/* Block keys from token ids, the loop of core/block_keys.py (WIRE.md 3.1). Plain C, no Python headers:
   .ci/native.sh compiles it where a compiler is present, core/native/__init__.py loads it. */

#include <stddef.h>
#include <stdint.h>

/* One key for each full block of the tokens; `keys` has room for count / block_size. Returns how many. */
size_t kvcm_block_keys(const int64_t *tokens, size_t count, size_t block_size, int64_t *keys)
{
    uint64_t state = 0;
    size_t blocks = count / block_size;
    for (size_t block = 0; block < blocks; block++) {
        for (size_t position = 0; position < block_size; position++) {
            /* >> of a negative number is arithmetic in every compiler that we know; the loader checks it. */
            uint64_t shifted = (uint64_t)((int64_t)state >> 32);
            state ^= (uint64_t)*tokens++ + UINT64_C(0x9e3779b97f4a7c15) + (state << 12) + shifted;
        }
        keys[block] = (int64_t)state;
    }
    return blocks;
}
