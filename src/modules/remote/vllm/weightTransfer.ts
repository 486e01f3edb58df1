/** vLLM's native weight transfer: the calls that prepare, begin, feed and end it. What carries the tensors is not part of them. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { EngineFailure } from '../../../data/engineClient.js'
import { changeAt, readFrom, type VLLMAddress, vLLMServer } from './calls.js'

/** Settings of a backend, as its own fields name them. */
type TransferInfo = Readonly<Record<string, unknown>>

/** The calls of a transfer, in their order. Each is sent once; what may have worked is a failure of kind `unknown`. */
export interface VLLMWeightTransfer {
  /** Workers that take part: tensor times pipeline times data parallel ones. */
  readonly worldSize: TE.TaskEither<EngineFailure, number>
  /** Once. For `nccl` it answers when all ranks have met, so that the trainer must join meanwhile. */
  readonly init: (info: TransferInfo) => TE.TaskEither<EngineFailure, void>
  /** Since 0.22. A transfer that was begun before and broke must be finished first. */
  readonly start: TE.TaskEither<EngineFailure, void>
  /** Any number of times. It is in flight while the backend moves the tensors. */
  readonly update: (info: TransferInfo) => TE.TaskEither<EngineFailure, void>
  /** Since 0.22. The version becomes the label of the weights (0.27). */
  readonly finish: (version?: number) => TE.TaskEither<EngineFailure, void>
  /** Since 0.32. */
  readonly shutdown: TE.TaskEither<EngineFailure, void>
  /** SHA-256 of every parameter as each worker holds it, by rank and name (0.29). */
  readonly checksums: TE.TaskEither<EngineFailure, ReadonlyMap<string, string>>
  readonly close: () => Promise<void>
}

/**
 * The weight-transfer calls of a server that runs in development mode with `--weight-transfer-config`.
 *
 * The backends of vLLM 0.32 (`nccl`, `nccl_m2n`, `sparse_nccl`, `ipc`, `sharded_rdt`, `modelexpress`) move tensors between GPUs: none of them
 * works on a CPU or over HTTP alone, so that from Node they need a plugin on the server (`vllm.general_plugins`, 0.23), whose fields are what
 * `init` and `update` send, or a native library beside Node. `docs/decisions/2026-11-21-native-weight-transfer.md` says what the counterpart of
 * `stateless_init_process_group` would take.
 *
 * Errors   `Left(EngineFailure)` as `EngineClient` has them.
 * Source   vLLM 0.32, `entrypoints/rl/online/api_router.py`.
 *
 * @example
 * const transfer = vLLMWeightTransfer({ url: 'http://127.0.0.1:8000' })
 */
export const vLLMWeightTransfer = (address: VLLMAddress & { readonly controlMs?: number }): VLLMWeightTransfer => {
  const server = vLLMServer(address)
  const change = (path: string, json?: object): TE.TaskEither<EngineFailure, void> =>
    pipe(
      changeAt(server, { path, schema: null, ...(json !== undefined && { json }) }),
      TE.map(() => undefined),
    )
  return {
    worldSize: pipe(
      readFrom(server, '/get_world_size?include_dp=true', z.object({ world_size: z.int().min(1) })),
      TE.map(({ world_size: size }) => size),
    ),
    init: (info) => change('/init_weight_transfer_engine', { init_info: info }),
    start: change('/start_weight_update'),
    update: (info) => change('/update_weights', { update_info: info }),
    finish: (version) =>
      change('/finish_weight_update', version === undefined ? undefined : { weight_version: String(version) }),
    shutdown: change('/shutdown_weight_transfer_engine'),
    checksums: pipe(
      changeAt(server, {
        path: '/weight_checker',
        json: { action: 'checksum' },
        schema: z.object({ checksums: z.record(z.string(), z.string()) }),
      }),
      TE.map((answer) => new Map(Object.entries(answer?.checksums ?? {}))),
    ),
    close: async () => {
      if (!('transport' in address)) await server.transport.close()
    },
  }
}
