/**
 * Returns the value that a record has under a name from outside, or `undefined`. Names such as
 * `constructor` and `__proto__`, which every object inherits, count only if the record has them.
 *
 * @example
 * ownValue({ a: 1 }, 'constructor') // undefined
 */
export const ownValue = <T>(record: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(record, name) ? record[name] : undefined
