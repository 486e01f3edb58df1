/** Three players of three kinds of backend in one game: this process, `tandem serve`, and a real vLLM. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { afterAll, expect, it, vi } from 'vitest'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { tandemOk, useTemporaryFolder } from '../kit/runs.js'
import { startServe } from '../kit/serveProcess.js'

const path = useTemporaryFolder()

/** An environment of `scripts/verify/engines/install.sh`, with the `vllm` that the arena starts. */
const venv = process.env.ENGINES_VENV
if (venv === undefined) throw new Error('run this test by `ENGINES_VENV=FOLDER npm run verify -- engines`')
vi.stubEnv('PATH', [join(venv, 'bin'), process.env.PATH ?? ''].join(delimiter))
vi.stubEnv('HF_HUB_OFFLINE', '1')
vi.stubEnv('VLLM_CPU_KVCACHE_SPACE', '1')
afterAll(() => vi.unstubAllEnvs())

it('play Kuhn poker for three, each with replies of its own', async () => {
  const server = await startServe(EMBEDDED_MODEL, 'served')
  try {
    mkdirSync(path('registry'))
    writeFileSync(
      path('registry/models.yaml'),
      `- name: vllm_served\n  url: ${server.url}/v1\n- name: vllm_started\n  model_path: ${EMBEDDED_MODEL}\n`,
    )
    writeFileSync(path('.env'), 'VLLM_MODELS_PATH=registry/models.yaml\n')
    writeFileSync(
      path('three.yaml'),
      `env_config: { game_name: kuhn_poker, players: 3 }
mode: multi_agent
num_episodes: 3
llm_backend: { max_tokens: 12, temperature: 1 }
illegal_move: random
agents:
  player_0: { type: llm, model: hf_${EMBEDDED_MODEL}, name: in process }
  player_1: { type: llm, model: vllm_served }
  player_2: { type: llm, model: vllm_started }
`,
    )
    await tandemOk(['arena', 'three.yaml', '--out', path('three')], { cwd: path('.') })
    const { games } = JSON.parse(readFileSync(path('three/results.json'), 'utf8')) as {
      readonly games: readonly { readonly players: readonly Readonly<Record<string, unknown>>[] }[]
    } // its own file
    const { players } = games[0]!
    expect(players.map(({ name }) => name).sort()).toEqual(['in process', 'vllm_served', 'vllm_started'])
    for (const { games: played, completionTokens, promptTokens } of players) {
      expect(played).toBe(3)
      expect(completionTokens).toBeGreaterThan(0)
      expect(promptTokens).toBeGreaterThan(100)
    }
    console.log(
      players.map(({ name, moves, illegal, completionTokens }) => ({ name, moves, illegal, completionTokens })),
    )
  } finally {
    await server.stop()
  }
}, 900_000) // a first start of vLLM compiles, for minutes on a busy machine
