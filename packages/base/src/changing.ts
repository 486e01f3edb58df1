/**
 * A record whose fields its owner may replace: for functions of a module that share and own state.
 * All other code sees the record with read-only fields.
 */
export type Changing<T> = { -readonly [K in keyof T]: T[K] }
