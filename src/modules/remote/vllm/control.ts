/**
 * Control of a server: pausing, caches, aborting, weights from a folder. Every change is sent once.
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { EngineClient, EngineFailure, EngineState } from '../../../data/engineClient.js'
import { controlFailure, engineFailure } from '../failures.js'
import { versionOf } from './answerEvents.js'
import { changeVLLM, readFrom, sendTo, type VLLMServer } from './calls.js'
import { type DetectedVLLM, modelsSchema } from './detect.js'
import { hasFeature, needed, type VLLMFeature } from './features.js'

/** The result of a call that changes the server. */
type Changed = TE.TaskEither<EngineFailure, void>

const done = (): void => undefined

/** Fails if a server of this release is known to lack a feature. */
const withFeature = (server: VLLMServer, { release }: DetectedVLLM, feature: VLLMFeature): Changed =>
  release === null || hasFeature(release, feature)
    ? TE.right(undefined)
    : TE.left(engineFailure(server.name, 'missing', needed(feature)))

/** Checks that the server reports to be healthy. */
export const health =
  (server: VLLMServer): Changed =>
  async () =>
    pipe(
      await sendTo(server, { method: 'GET', path: '/health', repeat: 'safe' })(),
      E.bimap((failure) => controlFailure(server.name, failure, 'reads'), done),
    )

const infoSchema = z.object({ weight_version: z.string() })
const pausedSchema = z.object({ is_paused: z.boolean() })

/** Returns null if the path does not exist. */
const orNull = <T>(call: TE.TaskEither<EngineFailure, T>): TE.TaskEither<EngineFailure, T | null> =>
  pipe(
    call,
    TE.orElseW((failure) => (failure.kind === 'missing' ? TE.right(null) : TE.left(failure))),
  )

/** Returns the server's current state. A label that is not one of our numbers gives no version. */
export const vllmState = (server: VLLMServer): TE.TaskEither<EngineFailure, EngineState> =>
  pipe(
    TE.Do,
    TE.bind('models', () => readFrom(server, '/v1/models', modelsSchema)),
    TE.bind('info', () => orNull(readFrom(server, '/weight_info', infoSchema))),
    TE.bind('paused', () => orNull(readFrom(server, '/is_paused', pausedSchema))),
    TE.map(({ models, info, paused }) => ({
      version: info === null ? null : versionOf(info.weight_version),
      isPaused: paused?.is_paused ?? null,
      adapters: models.data.flatMap(({ id, parent }) => (parent == null ? [] : [id])),
    })),
  )

/**
 * Pauses the server. The answer arrives when the mode's condition holds.
 *
 * Errors   `Left(EngineFailure)`; `missing` without the development mode, and for `keep` before
 *          vLLM 0.16.
 */
export const pauseVLLM = (
  server: VLLMServer,
  detected: DetectedVLLM,
  { mode, cache }: Parameters<EngineClient['pause']>[0],
): Changed =>
  pipe(
    mode === 'keep' ? withFeature(server, detected, 'pause mode keep') : TE.right(undefined),
    TE.chain(() => changeVLLM(server, { path: `/pause?mode=${mode}&clear_cache=${cache === 'clear'}`, schema: null })),
    TE.map(done),
  )

/** Resumes the server. */
export const resumeVLLM = (server: VLLMServer): Changed =>
  pipe(changeVLLM(server, { path: '/resume', schema: null }), TE.map(done))

/**
 * Clears the prefix cache. A server that cannot, because requests use parts of it, counts as
 * refusing.
 */
export const resetServerCache = (server: VLLMServer): Changed =>
  pipe(
    changeVLLM(server, {
      path: '/reset_prefix_cache',
      schema: z.object({ success: z.boolean().nullish() }).nullish().catch(null),
    }),
    TE.chain((answer) =>
      answer?.success === false
        ? TE.left(
            engineFailure(
              server.name,
              'refused',
              'the prefix cache was not cleared: running or frozen requests use parts of it',
            ),
          )
        : TE.right(undefined),
    ),
  )

/**
 * Aborts requests by the server's names for them, or all without names. Returns the number that the
 * server reports.
 */
export const abortVLLM = (
  server: VLLMServer,
  detected: DetectedVLLM,
  names: readonly string[] | null,
): TE.TaskEither<EngineFailure, number> =>
  pipe(
    withFeature(server, detected, '/abort_requests'),
    TE.chain(() =>
      changeVLLM(server, {
        path: '/abort_requests',
        json: names === null ? {} : { request_ids: names },
        schema: z.object({ aborted: z.int().min(0) }),
      }),
    ),
    TE.map((answer) => answer?.aborted ?? 0),
  )

/** Sets the label that `/weight_info` and answers report from then on. */
const labelWeights = (server: VLLMServer, version: number): Changed =>
  pipe(
    changeVLLM(server, { path: '/update_weight_version', json: { new_version: String(version) }, schema: null }),
    TE.map(done),
  )

/**
 * Converts a failed labeling after the weights were loaded, so that it is not mistaken for refused
 * weights.
 */
const unlabeled = (failure: EngineFailure): EngineFailure => ({
  ...failure,
  kind: 'unknown',
  reason: `the weights arrived, but were not labeled: ${failure.reason}`,
})

/**
 * Loads base weights from a folder on the server, and labels them if it supports labels. Neither
 * pauses nor clears the prefix cache.
 *
 * Errors   `Left(EngineFailure)`: `unknown` for everything that may have changed the server's
 *          weights, including failed loads that it reports.
 */
export const reloadFrom = (
  server: VLLMServer,
  detected: DetectedVLLM,
  { path, version }: { readonly path: string; readonly version: number },
): Changed =>
  pipe(
    withFeature(server, detected, 'reload_weights from a folder'),
    TE.chain(() =>
      changeVLLM(server, {
        path: '/collective_rpc',
        json: { method: 'reload_weights', kwargs: { weights_path: path } },
        schema: null,
      }),
    ),
    TE.chain(() =>
      detected.labels === 'yes' ? pipe(labelWeights(server, version), TE.mapLeft(unlabeled)) : TE.right(undefined),
    ),
  )
