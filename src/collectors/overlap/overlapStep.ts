/**
 * Overlapped training as a pure state machine: takes an event, returns the next state and actions.
 */
import type { LiveTask, OverlapDrop, OverlapState } from './overlapState.js'

/** Minimum number of finished tasks in the share of failures. */
const FEWEST_ENDED = 10

/** An event of overlapped training. */
export type OverlapEvent =
  /** The first event. */
  | { readonly _tag: 'Begun' }
  /** A group is complete; `oldest` is the version that sampled its oldest token. */
  | { readonly _tag: 'Sampled'; readonly task: number; readonly oldest: number; readonly signal: 'yes' | 'no' }
  | { readonly _tag: 'Failed'; readonly task: number }
  /** The groups of the last `Train` were trained on. */
  | { readonly _tag: 'Trained' }
  /** New requests are sampled with `version` from now on. */
  | { readonly _tag: 'Pushed'; readonly version: number }
  | { readonly _tag: 'Stopped' }

/** A group in a training step, with its staleness. */
export interface TrainedTask {
  readonly task: number
  /** Updates between its oldest token and the weights that are trained on it. */
  readonly lag: number
}

/** An action to perform. Actions are performed in order. */
export type OverlapAction =
  | { readonly _tag: 'Sample'; readonly task: number }
  /** Cancels the sampling of the task. */
  | { readonly _tag: 'Cancel'; readonly task: number }
  /** Frees the group, which is not used. */
  | { readonly _tag: 'Discard'; readonly task: number }
  | { readonly _tag: 'Train'; readonly tasks: readonly TrainedTask[] }
  | { readonly _tag: 'Push'; readonly version: number }

type Moved = readonly [state: OverlapState, actions: readonly OverlapAction[]]

const isTraining = ({ live }: OverlapState): boolean => live.some(({ stage }) => stage === 'training')

/** Returns the earliest version that can be trained on groups not yet in training. */
const nextVersion = (state: OverlapState): number => state.version + (isTraining(state) ? 1 : 0)

const ageOf = (task: LiveTask): number => (task.stage === 'sampling' ? task.since : task.oldest)

/** Returns, for each task not yet in training, the last version that may be trained on it. */
const deadlines = ({ live, rules }: OverlapState, except: ReadonlySet<number> = new Set()): readonly number[] =>
  [...live]
    .filter(([task, { stage }]) => stage !== 'training' && !except.has(task))
    .map(([, task]) => ageOf(task) + rules.maxLag)

/**
 * Returns true if steps of `groups` groups each, starting at version `first`, meet all deadlines.
 */
const isInTime = (times: readonly number[], first: number, groups: number): boolean =>
  [...times].sort((a, b) => a - b).every((deadline, i) => i + 1 <= (deadline - first + 1) * groups)

const drop = (state: OverlapState, task: number, why: OverlapDrop): OverlapState => {
  const { trained, dropped } = state.counts
  return {
    ...state,
    live: state.live.delete(task),
    counts: { trained, dropped: { ...dropped, [why]: dropped[why] + 1 } },
  }
}

/** Returns true if too many tasks failed. */
const isTooMuch = ({ counts: { trained, dropped }, rules }: OverlapState): boolean => {
  const ended = trained + dropped.stale + dropped.failed + dropped.filtered
  return dropped.failed > rules.maxFailureShare * Math.max(ended, FEWEST_ENDED)
}

const onSampled = (state: OverlapState, event: Extract<OverlapEvent, { readonly _tag: 'Sampled' }>): Moved => {
  const { task, oldest, signal } = event
  if (state.live.get(task)?.stage !== 'sampling') return [state, [{ _tag: 'Discard', task }]]
  if (signal === 'no' && state.filtered < state.rules.refills)
    return [{ ...drop(state, task, 'filtered'), filtered: state.filtered + 1 }, [{ _tag: 'Discard', task }]]
  return [{ ...state, live: state.live.set(task, { stage: 'ready', oldest }) }, []]
}

const onFailed = (state: OverlapState, task: number): OverlapState => {
  if (state.live.get(task)?.stage !== 'sampling') return state
  const next = drop(state, task, 'failed')
  return isTooMuch(next) ? { ...next, mode: 'halted' } : next
}

const onTrained = (state: OverlapState): OverlapState => {
  const trained = state.live.filter(({ stage }) => stage === 'training')
  if (trained.size === 0) throw new RangeError('overlapStep: no groups are in training')
  const { counts, version, live } = state
  return {
    ...state,
    version: version + 1,
    filtered: 0,
    live: live.deleteAll(trained.keys()),
    counts: { ...counts, trained: counts.trained + trained.size },
  }
}

const onPushed = (state: OverlapState, version: number): OverlapState => {
  if (state.pushing !== version) throw new RangeError(`overlapStep: version ${version} was not being pushed`)
  return { ...state, serving: version, pushing: null }
}

const moved = (state: OverlapState, event: OverlapEvent): Moved => {
  switch (event._tag) {
    case 'Begun':
      return [state, []]
    case 'Sampled':
      return onSampled(state, event)
    case 'Failed':
      return [onFailed(state, event.task), []]
    case 'Trained':
      return [onTrained(state), []]
    case 'Pushed':
      return [onPushed(state, event.version), []]
    case 'Stopped':
      return [state.mode === 'running' ? { ...state, mode: 'stopped' } : state, []]
  }
}

/** Cancels all sampling after a stop. The tasks stay open. */
const callOff = (state: OverlapState): readonly OverlapAction[] =>
  [...state.live].flatMap(([task, { stage }]) => (stage === 'sampling' ? [{ _tag: 'Cancel' as const, task }] : []))

/** Drops groups that no step can train on in time. */
const evict = (state: OverlapState): Moved => {
  if (state.rules.stale === 'correct') return [state, []]
  const first = nextVersion(state)
  const late = [...state.live].filter(
    ([, task]) => task.stage !== 'training' && ageOf(task) + state.rules.maxLag < first,
  )
  return [
    late.reduce((next, [task]) => drop(next, task, 'stale'), state),
    late.map(([task, { stage }]) => ({ _tag: stage === 'sampling' ? 'Cancel' : 'Discard', task })),
  ]
}

const push = (state: OverlapState): Moved =>
  state.pushing === null && state.serving < state.version
    ? [{ ...state, pushing: state.version }, [{ _tag: 'Push', version: state.version }]]
    : [state, []]

const hasTask = ({ again, next, rules }: OverlapState): boolean => again.length > 0 || next < rules.tasks

const mayDraw = (state: OverlapState): boolean => {
  const { rules, live, version, serving } = state
  if (!hasTask(state) || live.size >= Math.min(rules.ahead, (rules.lastVersion - version) * rules.groups)) return false
  const [first, deadline] = [nextVersion(state), serving + rules.maxLag]
  if (deadline < first) return false
  if (rules.stale === 'drop') return state.pushing === null // groups drawn before a push are dropped sooner
  return rules.stale === 'correct' || isInTime([...deadlines(state), deadline], first, rules.groups)
}

const draw = (state: OverlapState): Moved => {
  const drawn: number[] = []
  let next = state
  while (mayDraw(next)) {
    const task = next.again[0] ?? next.next
    drawn.push(task)
    next = {
      ...next,
      ...(next.again.length > 0 ? { again: next.again.slice(1) } : { next: task + 1 }),
      live: next.live.set(task, { stage: 'sampling', since: next.serving }),
    }
  }
  return [next, drawn.map((task) => ({ _tag: 'Sample', task }))]
}

/** Returns the oldest groups for the next step, or an empty list while it must wait for groups. */
const chosen = (state: OverlapState): readonly TrainedTask[] => {
  const { live, rules, version } = state
  if (isTraining(state) || version >= rules.lastVersion) return []
  const ready = [...live].flatMap(([task, each]) => (each.stage === 'ready' ? [{ task, oldest: each.oldest }] : []))
  const isAll = ready.length === live.size
  if (ready.length < rules.groups && !(isAll && !hasTask(state))) return []
  const taken = ready.sort((a, b) => a.oldest - b.oldest || a.task - b.task).slice(0, rules.groups)
  const rest = deadlines(state, new Set(taken.map(({ task }) => task)))
  if (rules.stale === 'wait' && !isAll && !isInTime(rest, version + 1, rules.groups)) return []
  return taken.sort((a, b) => a.task - b.task).map(({ task, oldest }) => ({ task, lag: version - oldest }))
}

const train = (state: OverlapState): Moved => {
  const tasks = chosen(state)
  if (tasks.length === 0) return [state, []]
  const live = tasks.reduce(
    (map, { task, lag }) => map.set(task, { stage: 'training', oldest: state.version - lag }),
    state.live,
  )
  return [{ ...state, live }, [{ _tag: 'Train', tasks }]]
}

/**
 * Returns the state after an event, and the actions to perform.
 *
 * A step trains on the `groups` oldest groups and makes the next version. The version is pushed to
 * the engine as soon as no other push is running. Tasks are drawn while fewer than `ahead` are
 * unfinished, and only if the next step is at most `maxLag` updates after the serving version.
 *
 * With `wait` the lag of a task is bounded before it is drawn. Every task has a deadline: the
 * serving version plus `maxLag`. For the version `v` of the next step, at most
 * `(d - v + 1) * groups` tasks may have a deadline of `d` or earlier. The oldest-first order then
 * meets all deadlines, if the trainer starts a step only when the remaining deadlines can still be
 * met. If an engine samples with older weights than it was given, its groups can still be too late.
 * They are dropped.
 *
 * Errors   throws RangeError for impossible events: `Trained` without training, or `Pushed` for a
 *          version that was not being pushed.
 * Effects  none.
 * Cost     `ahead * log(ahead)` per event and per drawn task.
 * Source   AReaL's staleness control (Fu et al. 2025, arXiv:2505.24298, equation 3), which bounds
 *          the number of drawn tasks. Here each deadline is bounded, so no group is trained on too
 *          late, whatever order groups finish in. `drop` is prime-rl's `max_off_policy_steps`.
 */
export const overlapStep = (state: OverlapState, event: OverlapEvent): Moved => {
  const [next, actions] = moved(state, event)
  if (next.mode !== 'running') return [next, state.mode === 'running' ? [...actions, ...callOff(next)] : actions]
  return [evict, train, evict, push, draw].reduce<Moved>(
    ([current, todo], plan) => {
      const [after, more] = plan(current)
      return [after, [...todo, ...more]]
    },
    [next, actions],
  )
}

/** Returns true if the last step is done or all tasks are finished. */
export const isOver = (state: OverlapState): boolean =>
  state.version >= state.rules.lastVersion || (state.live.size === 0 && !hasTask(state))
