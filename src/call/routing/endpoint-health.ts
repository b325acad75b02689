import type { Logger } from '../../log.js';
import type { Endpoint } from '../../store/routing/endpoints.js';

type Health = Endpoint['health'];

/** Failures in a row that open the circuit. */
const failuresUntilDown = 3;
/** An endpoint that is down gets one call per interval. */
const retryAfterMs = 30_000;

interface Course {
  health: Health;
  failuresInRow: number;
  /** While down: when the next call may try it. */
  retryAtMs: number;
}

/**
 * The health of endpoints, from the outcome of real calls; nothing is probed. After several failures in a row an endpoint is `down`, and calls
 * that have a fallback use it instead, except for one call every half minute that tries the endpoint again.
 */
export class EndpointHealth {
  readonly #courses = new Map<string, Course>();

  /** `save` writes each change. Its failure is logged only: health is informational, and a locked database must not fail a call. */
  constructor(
    private readonly save: (endpointId: string, health: Health) => Promise<void>,
    private readonly log: Logger,
    private readonly nowMs: () => number = () => performance.now(),
  ) {}

  /** Whether a call that has a fallback may try this endpoint. For an endpoint that is down, the call that gets `true` is the probe. */
  admits(endpointId: string): boolean {
    const course = this.#courses.get(endpointId);
    if (course?.health !== 'down') return true;
    if (this.nowMs() < course.retryAtMs) return false;
    course.retryAtMs = this.nowMs() + retryAfterMs;
    return true;
  }

  /** Its agent sent audio, or ended a call normally. */
  succeeded(endpointId: string): void {
    const course = this.#course(endpointId);
    course.failuresInRow = 0;
    this.#change(endpointId, course, 'healthy');
  }

  failed(endpointId: string): void {
    const course = this.#course(endpointId);
    course.failuresInRow += 1;
    const down = course.failuresInRow >= failuresUntilDown;
    if (down) course.retryAtMs = this.nowMs() + retryAfterMs;
    this.#change(endpointId, course, down ? 'down' : 'degraded');
  }

  #course(endpointId: string): Course {
    const known = this.#courses.get(endpointId);
    if (known !== undefined) return known;
    const course: Course = { health: 'unknown', failuresInRow: 0, retryAtMs: 0 };
    this.#courses.set(endpointId, course);
    return course;
  }

  #change(endpointId: string, course: Course, health: Health): void {
    if (course.health === health) return;
    course.health = health;
    this.save(endpointId, health).catch((error: Error) =>
      this.log.warn({ err: error, endpoint_id: endpointId, health }, 'the health of an endpoint was not written'),
    );
  }
}
