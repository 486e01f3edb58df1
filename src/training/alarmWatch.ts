/** Watches the steps of a run, and holds the batches that trouble may have begun with until it is told or over. */
import { type Alarm, type AlarmLimits, suspectSteps, watchStep, watchSteps } from './alarms.js'
import type { KeptBatch } from './batchFolder.js'
import type { StepRecord } from './records.js'

/** Alarms with the batch of the step in which their trouble began. */
export interface RaisedAlarms {
  readonly alarms: readonly Alarm[]
  readonly batch: KeptBatch
}

export interface AlarmWatch {
  /** What a step raises. `batch` makes what is to be kept of it, and is asked only if it may be needed. */
  readonly see: (record: StepRecord, batch: () => KeptBatch) => readonly RaisedAlarms[]
}

/**
 * A watch after the steps that were done before.
 *
 * Trouble that lasts is told in its last step with the batch of its first one, as long as that is at hand: of trouble that began in an earlier
 * session, or 20 steps ago (`reward-stuck`), the batch of the step that tells it is kept.
 *
 * Cost     at most as many batches as the longest trouble has steps before it is told: five.
 */
export const alarmWatch = (limits: AlarmLimits, before: readonly StepRecord[]): AlarmWatch => {
  let { state } = watchSteps(before, limits)
  const held = new Map<number, KeptBatch>()
  return {
    see: (record, batch) => {
      const next = watchStep(state, record, limits)
      state = next.state
      const suspects = suspectSteps(state, record.step)
      if (suspects.includes(record.step) || next.alarms.length > 0) held.set(record.step, batch())
      const raised = new Map<number, Alarm[]>()
      for (const alarm of next.alarms) {
        const first = held.has(alarm.since) ? alarm.since : record.step
        raised.set(first, [...(raised.get(first) ?? []), alarm])
      }
      const told = [...raised].map(([first, alarms]) => ({ alarms, batch: held.get(first)! })) // each is held
      for (const step of [...held.keys()]) if (!suspects.includes(step)) held.delete(step)
      return told
    },
  }
}
