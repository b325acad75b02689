/** Deliveries of events to webhooks: what was sent, what the receiver answered, and once more. */
import { useState } from 'preact/hooks';
import { answerOf, api } from '../api/client';
import { pageSize, usePages } from '../api/pages';
import type { PageProps } from '../page';
import { linkTo, replaceQuery } from '../route';
import { Action, Card, Empty, Head, Loading, Problem } from '../ui/parts';
import { State } from '../ui/state';
import { Brief } from '../ui/text';
import { Time } from '../ui/time';
import { VirtualRows } from '../ui/virtual-rows';

const rowHeight = 56;

type Status = 'pending' | 'delivered' | 'failed';

export function Deliveries({ place, me }: PageProps) {
  const status = (place.query.get('status') || undefined) as Status | undefined;
  const list = usePages(`deliveries ${status}`, (offset, signal) =>
    answerOf(api.GET('/v1/webhook-deliveries', { params: { query: { limit: pageSize, offset, status } }, signal })),
  );
  const [retried, setRetried] = useState<string | null>(null);
  const { rows } = list;
  return (
    <>
      <Head
        title="Webhook deliveries"
        under={(list.total ?? 0) > pageSize ? `${list.total?.toLocaleString()}, newest first` : undefined}
      >
        <div class="field">
          <label class="hidden" for="delivery-status">
            Status
          </label>
          <select
            id="delivery-status"
            value={status ?? ''}
            onChange={(event) => replaceQuery('deliveries', { status: event.currentTarget.value })}
          >
            <option value="">Every status</option>
            <option value="pending">Pending</option>
            <option value="delivered">Delivered</option>
            <option value="failed">Failed</option>
          </select>
        </div>
        <button type="button" onClick={list.reload}>
          Look again
        </button>
      </Head>
      {list.error && <Problem error={list.error} onRetry={list.reload} />}
      {list.total === null && !list.error && <Loading />}
      {retried && (
        <div class="notice" data-tone="good" role="status">
          It is sent again now.
        </div>
      )}
      {list.total !== null && (
        <Card>
          {rows.length === 0 ? (
            <Empty title={status ? 'No delivery has this status' : 'Nothing was sent yet'}>
              {status ? (
                <a href={linkTo('deliveries')}>Show all deliveries</a>
              ) : (
                <p>
                  Give an <a href="#/endpoints">endpoint</a> an events URL; each event of its calls is then sent there,
                  signed, until the receiver accepts it.
                </p>
              )}
            </Empty>
          ) : (
            <div class="table-wrap">
              <table class="rows fixed">
                <caption class="hidden">Deliveries, newest first</caption>
                <thead>
                  <tr>
                    <th scope="col">Event</th>
                    <th scope="col">Status</th>
                    <th scope="col" class="wide-only">
                      Attempts
                    </th>
                    <th scope="col" class="wide-only">
                      Last answer
                    </th>
                    <th scope="col" class="wide-only">
                      Next
                    </th>
                    <th scope="col">
                      <span class="hidden">Actions</span>
                    </th>
                  </tr>
                </thead>
                <VirtualRows
                  rows={rows}
                  rowHeight={rowHeight}
                  onNearEnd={list.more}
                  render={(delivery) => {
                    const last = delivery.attempts.at(-1);
                    return (
                      <tr key={delivery.id} class="tall">
                        <td>
                          <a href={`#/calls/${delivery.call_id}`}>{delivery.event_type}</a>
                          <br />
                          <small>
                            <Time at={delivery.created_at} />
                          </small>
                        </td>
                        <td>
                          <State of={delivery.status} />
                        </td>
                        <td class="wide-only">{delivery.attempts.length}</td>
                        <td class="wide-only">
                          {last ? (
                            <Brief
                              text={last.http_status === null ? last.error : `HTTP ${last.http_status}`}
                              limit={60}
                            />
                          ) : (
                            '–'
                          )}
                        </td>
                        <td class="wide-only">
                          {delivery.attempts.length === 0 && Date.parse(delivery.next_attempt_at ?? '') < Date.now() ? (
                            <span class="soft">after those before it</span>
                          ) : (
                            <Time at={delivery.next_attempt_at} />
                          )}
                        </td>
                        <td class="right">
                          {delivery.status !== 'delivered' && me.role !== 'member' && (
                            <Action
                              label="Send again"
                              action={async () => {
                                const path = { id: delivery.id };
                                await answerOf(
                                  api.POST('/v1/webhook-deliveries/{id}/retry', { params: { path }, body: {} }),
                                );
                                setRetried(delivery.id);
                                list.reload();
                              }}
                            />
                          )}
                        </td>
                      </tr>
                    );
                  }}
                />
              </table>
            </div>
          )}
        </Card>
      )}
    </>
  );
}
