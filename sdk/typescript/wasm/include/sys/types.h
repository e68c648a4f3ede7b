/* What the C libraries use of it. */
#pragma once
typedef long off_t;
