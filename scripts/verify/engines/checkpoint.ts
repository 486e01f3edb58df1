/**
 * The small checkpoint that real servers are given: a fresh one of the peers' generator, or the
 * model that comes with Tandem.
 */
import { execFileSync } from 'node:child_process'
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'

const TEXT_FILES = ['tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']

const readJson = (file: string): Readonly<Record<string, unknown>> =>
  JSON.parse(readFileSync(file, 'utf8')) as Readonly<Record<string, unknown>> // a config is an object

/**
 * `transformers serve` draws only where the checkpoint says so, and cuts to 50 tokens unless it
 * says otherwise.
 */
const GENERATION = { do_sample: true, temperature: 1, top_k: 0, top_p: 1 }

export interface CheckpointOptions {
  readonly folder: string
  readonly seed: number
  /** Virtual environment and folder of the peers; undefined: the model that comes with Tandem. */
  readonly peers: { readonly venv: string; readonly folder: string } | undefined
}

/** Writes the checkpoint and returns its description. */
export const writeCheckpoint = ({ folder, seed, peers }: CheckpointOptions): string => {
  const own = readJson(join(EMBEDDED_MODEL, 'config.json'))
  if (peers === undefined) cpSync(EMBEDDED_MODEL, folder, { recursive: true })
  else {
    // Heads of 32, the least that vLLM's attention on a CPU knows.
    const args = ['--family', 'qwen3', '--vocab', String(own.vocab_size), '--seed', String(seed), '--out', folder]
    execFileSync(join(peers.venv, 'bin/python'), [join(peers.folder, 'make_model.py'), ...args], {
      stdio: ['ignore', 'ignore', 'inherit'],
      env: { ...process.env, TQDM_DISABLE: '1' },
    })
    for (const file of TEXT_FILES) cpSync(join(EMBEDDED_MODEL, file), join(folder, file))
  }
  const config = join(folder, 'config.json')
  const { eos_token_id, pad_token_id } = own // the tokenizer's, not the generator's
  const changes = { eos_token_id, pad_token_id, bos_token_id: null }
  writeFileSync(config, JSON.stringify({ ...readJson(config), ...changes }, undefined, 2))
  writeFileSync(join(folder, 'generation_config.json'), JSON.stringify({ ...GENERATION, eos_token_id, pad_token_id }))
  return peers === undefined ? 'the model that comes with Tandem' : `a random Qwen3 of seed ${seed}`
}
