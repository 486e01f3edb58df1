/**
 * A record of which the holder may replace fields: for the functions of a module that share state and own it. Everybody else sees the record
 * with read-only fields.
 */
export type Changing<T> = { -readonly [K in keyof T]: T[K] }
