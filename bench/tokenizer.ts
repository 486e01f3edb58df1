/**
 * Times encoding and decoding, in MB of text per second, in turns with the Rust library (npm
 * `tokenizers`) and with `@huggingface/tokenizers`.
 *
 *     npm run bench -- tokenizer [megabytes] [rounds]
 *
 * Prints one JSON line for each family and each kind of work: the medians, their spread, and the
 * ratio to the peers (above 1: we are faster).
 */
import { readFileSync } from 'node:fs'
import * as library from '@huggingface/tokenizers'
import { median, orThrow } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { textTokenizer } from '@tandem-rl/text'
import { Tokenizer as RustTokenizer } from 'tokenizers'

const [megabytes = 0.25, rounds = 5] = process.argv.slice(2).map(Number)

/** The part of `@huggingface/tokenizers` that is timed. */
interface PureTokenizer {
  readonly encode: (text: string, options: object) => { readonly ids: number[] }
  readonly decode: (ids: number[], options: object) => string
}

// A cast: the library's own declarations are not resolved under Node's module rules.
const { Tokenizer: PureTokenizer } = library as unknown as {
  readonly Tokenizer: new (
    json: object,
    config: object,
  ) => PureTokenizer // its declarations do not resolve here
}

/** The documentation of this project, repeated: prose, code, tables. */
const source = [
  'docs/parity.md',
  'docs/benchmarks.md',
  'CONTRIBUTING.md',
  'packages/text/src/tokenizer/textTokenizer.ts',
]
  .map((path) => readFileSync(path, 'utf8'))
  .join('\n')
const lines = source
  .repeat(Math.ceil((megabytes * 1e6) / source.length))
  .slice(0, megabytes * 1e6)
  .split('\n')
const bytes = new TextEncoder().encode(lines.join('')).length

const FILES = {
  'word-problems': 'models/word-problems/tokenizer.json',
  llama2: 'test/golden/tokenizers/llama2.json',
  bert: 'test/golden/tokenizers/bert.json',
  xlmr: 'test/golden/tokenizers/xlmr.json',
}

type Work = () => Promise<void> | void

/** One round of each contestant in turn. */
const race = async (
  contestants: Readonly<Record<string, Work>>,
): Promise<Readonly<Record<string, readonly number[]>>> => {
  const seconds: Record<string, number[]> = Object.fromEntries(Object.keys(contestants).map((name) => [name, []]))
  for (let round = -1; round < rounds; round++) {
    for (const [name, work] of Object.entries(contestants)) {
      const start = performance.now()
      await work()
      if (round >= 0) seconds[name]!.push((performance.now() - start) / 1000) // the first round warms up
    }
  }
  return seconds
}

const report = (family: string, work: string, seconds: Readonly<Record<string, readonly number[]>>): void => {
  const speeds = Object.entries(seconds).map(([name, times]) => {
    const all = times.map((time) => bytes / 1e6 / time)
    return [name, { megabytesPerSecond: median(all), lowest: Math.min(...all), highest: Math.max(...all) }] as const
  })
  const mine = speeds[0]![1].megabytesPerSecond
  const ratios = Object.fromEntries(
    speeds.slice(1).map(([name, { megabytesPerSecond }]) => [name, mine / megabytesPerSecond]),
  )
  console.log(
    JSON.stringify({ family, work, lines: lines.length, bytes, ...Object.fromEntries(speeds), ratios, ...host() }),
  )
}

for (const [family, path] of Object.entries(FILES)) {
  const text = readFileSync(path, 'utf8')
  const json: object = JSON.parse(text)
  const tandem = orThrow(textTokenizer(json))
  const native = RustTokenizer.fromString(text)
  const pure = new PureTokenizer(json, {})
  const plain = { add_special_tokens: false }
  const batch = lines.map((line) => tandem.encode(line))
  const lists = batch.map((ids) => Array.from(ids))
  report(
    family,
    'encode',
    await race({
      tandem: () => lines.forEach((line) => void tandem.encode(line)),
      '@huggingface/tokenizers': () => lines.forEach((line) => line !== '' && void pure.encode(line, plain)),
      'tokenizers, batch': async () => void (await native.encodeBatch(lines, { addSpecialTokens: false })),
    }),
  )
  report(
    family,
    'encode with offsets',
    await race({
      tandem: () => lines.forEach((line) => void tandem.encoding(line)),
      'tokenizers, batch': async () => {
        const encodings = await native.encodeBatch(lines, { addSpecialTokens: false })
        for (const encoding of encodings) encoding.getOffsets()
      },
    }),
  )
  report(
    family,
    'decode',
    await race({
      tandem: () => batch.forEach((ids) => void tandem.decode(ids, 'keep')),
      '@huggingface/tokenizers': () => lists.forEach((ids) => ids.length > 0 && void pure.decode(ids, {})),
      'tokenizers, batch': async () => void (await native.decodeBatch(lists, false)),
    }),
  )
}
