/** Largest sizes of files that are read whole. */

const MIB = 2 ** 20

/**
 * Largest sizes in bytes, by the end of a file's name; the first match counts. Lines and texts stay
 * below the longest string of V8, 2^29 - 24 characters. Templates and YAML take much more time than
 * JSON.
 */
export const FILE_LIMITS: readonly (readonly [end: string, bytes: number])[] = [
  ['.jinja', MIB],
  ['.yaml', MIB / 4],
  ['.yml', MIB / 4],
  ['tokenizer.json', 256 * MIB],
  ['rollouts.json', 500 * MIB],
  ['.json', 64 * MIB],
  ['.jsonl', 500 * MIB],
  ['', 64 * MIB],
]

/** Largest size of a file that is read as bytes, such as weights, without a limit by its name. */
const BYTES = 4096 * MIB

/**
 * Returns the reason why a file is too large to be read whole, or `null`.
 *
 * @example
 * sizeProblem('config.json', { bytes: 100, as: 'text' }) // null
 */
export const sizeProblem = (
  path: string,
  { bytes, as }: { readonly bytes: number; readonly as: 'text' | 'bytes' },
): string | null => {
  const [end, limit] = FILE_LIMITS.find(([each]) => path.endsWith(each))! // the last one is the end of every name
  const most = end === '' && as === 'bytes' ? BYTES : limit
  if (bytes <= most) return null
  return `the file has ${bytes} bytes, more than the ${most} that are read of a file of this name`
}
