/**
 * Compares tokenizers of every family with the Rust library (npm `tokenizers`): ids, offsets,
 * types, masks and decoded texts.
 *
 *     npm run verify -- tokenizers [strings per family] [seed]
 */
import fc from 'fast-check'
import {
  bertNormalizer,
  bertPreTokenizer,
  lowercase,
  type Normalizer,
  nfkcNormalizer,
  nmt,
  stripAccentsNormalizer,
} from 'tokenizers'
import { original } from '../../packages/text/src/tokenizer/alignedText.js'
import type { SimpleNormalizer } from '../../packages/text/src/tokenizer/files.js'
import { normalizer, normalizeText } from '../../packages/text/src/tokenizer/normalize.js'
import { preTokenizer } from '../../packages/text/src/tokenizer/preTokenize.js'
import {
  anyText,
  FAMILIES,
  families,
  familyJson,
  familyTokenizer,
  isNewerThanRust,
  ours,
  rust,
} from '../../test/kit/tokenizers.js'

const [count = 10_000, seed = 1] = process.argv.slice(2).map(Number)

/** Maximum number of counterexamples printed for each family. */
const SHOWN = Number(process.env.SHOWN ?? 5)

let failed = 0
for (const family of families) {
  const [tokenizer, native] = [familyTokenizer(family), rust(familyJson(family))]
  const wrong: string[] = []
  let tokens = 0
  let left = 0
  for (const text of fc.sample(anyText(family), { numRuns: count, seed })) {
    if (isNewerThanRust(text)) {
      left++
      continue
    }
    for (const template of ['omit', 'add'] as const) {
      const [expected, actual] = [JSON.stringify(await native(text, template)), ours(tokenizer, text, template)]
      tokens += actual.ids.length
      if (expected !== JSON.stringify(actual)) {
        wrong.push(`${JSON.stringify(text)} (${template})\n    rust ${expected}\n    ours ${JSON.stringify(actual)}`)
      }
      if (Array.from(tokenizer.encode(text, { template })).join() !== actual.ids.join()) wrong.push(`encode: ${text}`)
    }
  }
  console.log(
    `${family} (${FAMILIES[family]}): ${count - left} texts, ${tokens} tokens, ${wrong.length} differ; ${left} left out`,
  )
  for (const difference of wrong.sort((a, b) => a.length - b.length).slice(0, SHOWN)) console.log(`  ${difference}`)
  failed += wrong.length
}
/**
 * The results of a character that differ between two functions, for all characters of Unicode that
 * both libraries know.
 */
const differing = (rustOf: (character: string) => string, oursOf: (character: string) => string): number => {
  let differences = 0
  for (let code = 0; code < 0x110000; code++) {
    const character = String.fromCodePoint(code)
    if ((code >= 0xd800 && code < 0xe000) || isNewerThanRust(character)) continue
    if (rustOf(character) !== oursOf(character)) differences++
  }
  return differences
}

const ownNormalizer = (json: SimpleNormalizer): ((character: string) => string) => {
  const normalize = normalizer([json])
  return (character) => normalizeText(normalize, character)
}

const nativeNormalizer =
  (native: Normalizer): ((character: string) => string) =>
  (character) =>
    native.normalizeString(character)

const bert = { clean_text: true, handle_chinese_chars: true, strip_accents: true, lowercase: true }
const bertCut = preTokenizer([{ type: 'BertPreTokenizer' }]).cut
const nativeCut = bertPreTokenizer()

const classes: Readonly<Record<string, readonly [(character: string) => string, (character: string) => string]>> = {
  BertNormalizer: [nativeNormalizer(bertNormalizer()), ownNormalizer({ type: 'BertNormalizer', ...bert })],
  StripAccents: [nativeNormalizer(stripAccentsNormalizer()), ownNormalizer({ type: 'StripAccents' })],
  Lowercase: [nativeNormalizer(lowercase()), ownNormalizer({ type: 'Lowercase' })],
  Nmt: [nativeNormalizer(nmt()), ownNormalizer({ type: 'Nmt' })],
  NFKC: [nativeNormalizer(nfkcNormalizer()), ownNormalizer({ type: 'NFKC' })],
  BertPreTokenizer: [
    (character) => JSON.stringify(nativeCut.preTokenizeString(`a${character}a`).map(([text]) => text)),
    (character) => JSON.stringify(bertCut(original(`a${character}a`)).map(({ text }) => text)),
  ],
}

for (const [name, [rustOf, oursOf]] of Object.entries(classes)) {
  const differences = differing(rustOf, oursOf)
  console.log(`${name}: ${differences} of all characters differ`)
  failed += differences
}

process.exitCode = failed === 0 ? 0 : 1
