/**
 * Compares a model in GGUF with llama.cpp and Transformers: ids of texts, logits, and greedy
 * tokens. `npm run verify -- gguf FILE [LINES] [PROMPTS] [TOKENS]`, with PEERS_VENV set to a
 * virtual environment with llama-cpp-python, torch, transformers and tokenizers. Lines and prompts
 * are questions of GSM8K from the file that GSM8K names. Exits with 1 if ids, greedy tokens of
 * Transformers, or logits beyond the limit differ. llama.cpp multiplies quantized blocks by rounded
 * activations: its greedy tokens are compared only for a file in float32.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { generateAll } from '../../src/modules/generation/generateAll.js'
import { modelEngine } from '../../src/modules/generation/modelEngine.js'
import { DEFAULT_SAMPLING } from '../../src/modules/generation/sampling/params.js'
import { loadPretrained, makeParams } from '../../src/modules/pretrained/pretrained.js'
import { saveModel } from '../../src/modules/pretrained/saveModel.js'
import { logitsOfRows, PROMPT } from '../../test/kit/lora.js'

/** Largest difference of a logit. */
const LIMIT = 2e-4
const [file, lines = '2000', prompts = '20', tokens = '64'] = process.argv.slice(2)
const { PEERS_VENV: venv, GSM8K: questions } = process.env
if (venv === undefined || questions === undefined || file === undefined) {
  console.error('name a file in GGUF, and set PEERS_VENV, and GSM8K to a file with rows of GSM8K')
  process.exit(2)
}

/** The results of the peer program. */
interface Peer {
  readonly llama: readonly (readonly number[])[]
  readonly rust: readonly (readonly number[])[]
  readonly llamaGreedy: readonly (readonly number[])[]
  readonly greedy: readonly (readonly number[])[]
  readonly logits: readonly (readonly (readonly number[])[])[]
}

await selectBackend()
const folder = mkdtempSync(join(tmpdir(), 'tandem-gguf-'))
try {
  const model = orThrow(await loadPretrained(file)())
  orThrow(await saveModel(join(folder, 'model'), model)())
  const { tokenizer } = model.text
  const texts = readFileSync(questions, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .flatMap((line) => Object.values(JSON.parse(line) as Readonly<Record<string, string>>)) // rows of two texts
    .slice(0, Number(lines))
  const asked = texts.slice(0, Number(prompts)).map((text) => [...tokenizer.encode(text)])
  const rows = asked.slice(0, 8).map((ids) => ids.slice(0, 24))
  writeFileSync(
    join(folder, 'ask.json'),
    JSON.stringify({ lines: texts, prompts: asked, tokens: Number(tokens), rows, last: 24 - PROMPT + 1 }),
  )
  execFileSync(join(venv, 'bin/python'), ['-P', 'scripts/verify/peers/gguf.py', file, join(folder, 'model'), folder], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, TQDM_DISABLE: '1', CUDA_VISIBLE_DEVICES: '' },
  })
  const peer = JSON.parse(readFileSync(join(folder, 'peer.json'), 'utf8')) as Peer // of the program above
  const params = scope(() => makeParams(model.arrays))
  const logits = logitsOfRows(params, model.config, rows)
  const wanted = peer.logits.flatMap((row) => row.slice(0, -1).flat()) // the last one predicts no token of the row
  const gap = logits.reduce((worst, x, i) => Math.max(worst, Math.abs(x - wanted[i]!)), 0)
  const engine = modelEngine({ config: model.config, params })
  const count = Number(tokens)
  const sampling = {
    ...DEFAULT_SAMPLING,
    temperature: 0,
    maxTokens: count,
    endTokens: 'ignore' as const,
    key: keyFromSeed(1),
  }
  const generated = await generateAll(
    engine,
    asked.map((ids, i) => ({ id: `${i}`, prompt: Int32Array.from(ids), sampling, adapter: null, cacheSalt: '' })),
  )
  const greedy = generated.map((each) => orThrow(each).completions[0]!.tokens.map(({ id }) => id))
  const equal = (a: readonly (readonly number[])[], b: readonly (readonly number[])[]): number =>
    a.filter((ids, i) => ids.join() === b[i]?.join()).length
  const ids = texts.map((text) => [...tokenizer.encode(text, { specialTokens: 'plainText' })])
  const counts = {
    llamaIds: equal(ids, peer.llama),
    rustIds: equal(ids, peer.rust),
    greedy: equal(greedy, peer.greedy),
    llamaGreedy: equal(greedy, peer.llamaGreedy),
  }
  console.log(`ids of ${texts.length} texts: ${counts.llamaIds} as llama.cpp, ${counts.rustIds} as the Rust tokenizers`)
  console.log(`logits of ${rows.length} rows: at most ${gap.toExponential(2)} from Transformers`)
  console.log(
    `${asked.length} x ${count} greedy tokens: ${counts.greedy} as Transformers, ${counts.llamaGreedy} as llama.cpp on this file`,
  )
  const isWhole = counts.llamaIds === texts.length && counts.rustIds === texts.length && counts.greedy === asked.length
  process.exitCode = isWhole && gap <= LIMIT ? 0 : 1
} finally {
  rmSync(folder, { recursive: true })
}
