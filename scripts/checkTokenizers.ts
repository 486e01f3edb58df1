/**
 * Compares tokenizers of every family with the Rust library (npm `tokenizers`): ids, offsets, types, masks and decoded texts.
 *
 *     npm run check:tokenizers -- [strings per family] [seed]
 */
import fc from 'fast-check'
import {
  anyText,
  FAMILIES,
  families,
  familyJson,
  familyTokenizer,
  isNewerThanRust,
  ours,
  rust,
} from '../test/kit/tokenizers.js'

const [count = 10_000, seed = 1] = process.argv.slice(2).map(Number)

/** How many counterexamples are printed of each family. */
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
process.exitCode = failed === 0 ? 0 : 1
