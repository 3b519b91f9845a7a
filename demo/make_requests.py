"""Write demo/requests.jsonl: 200 chat requests of the kinds that people batch, the same bytes every time.

Five jobs over one small shop's paperwork: label support tickets, draft replies, read reviews, pull fields out of
documents, translate notices. Run it after changing the texts: `python demo/make_requests.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

MODEL = "standin-chat"
TARGET = "/v1/chat/completions"
FILE = Path(__file__).with_name("requests.jsonl")

TICKETS = [
    "My parcel says delivered since Tuesday but nothing is at the door and the neighbours have nothing either.",
    "I was charged twice for order 48213, once on the 3rd and once on the 4th. Please send one of them back.",
    "The zip of the rain jacket came off after the second wear. I have photos.",
    "How do I change the delivery address? I am moving on Friday and the order has not shipped yet.",
    "Your app logs me out every time I open the basket. Android 14, app version 5.2.1.",
    "I would like an invoice with our company's VAT number on it for order 47990.",
    "The blue in the pictures is nothing like the blue I got. Can I exchange it for the grey one?",
    "Is the two-person tent still tested for winds above 90 km/h? The old page said so and the new one does not.",
    "I returned three items two weeks ago and only one has been refunded.",
    "The discount code SPRING10 is refused although the newsletter says it is valid until Sunday.",
    "Please delete my account and everything you store about me.",
    "The stove arrived without the gas adapter that is on the packing list.",
    "Can I collect the order in your Leeds shop instead of having it shipped?",
    "The courier left the box in the rain and the books are ruined.",
    "I never got the confirmation e-mail, was my order placed? The money has left my account.",
    "What is the weight limit of the child carrier? The label has come off.",
    "My gift card shows a balance of zero and I have never used it.",
    "Your checkout page does not load in Firefox with strict tracking protection.",
    "I ordered boots in 43 and received 41. The 43 is sold out now, what can we do?",
    "The sleeping bag smells strongly of plastic even after airing it for a week.",
    "Do you ship to the Faroe Islands, and what does it cost for a parcel of 4 kg?",
    "I want to return a present without the sender being told. Is that possible?",
    "The torch flickers on the highest setting, with new batteries too.",
    "Someone seems to have logged in to my account from another country last night.",
    "The subscription for fuel canisters renewed although I cancelled it in May.",
    "Can you tell me which of your base layers are made without wool? I am allergic.",
    "My order is split in four parcels and I am asked to pay customs on each of them.",
    "The size chart for gloves is in inches only. What is M in centimetres?",
    "I paid for next-day delivery and it took five days. I would like the fee back.",
    "The backpack's hip belt is sewn on twisted. It is brand new.",
    "Could you put the parcel on hold until the 14th? Nobody is at home before.",
    "Your chat told me the pump fits the older mattress. It does not.",
    "I cannot reset my password, the link says expired straight away.",
    "We are a scout group of 30. Is there a price for larger orders?",
    "The water filter's flow dropped to a trickle after ten litres.",
    "Please stop sending me text messages about my basket.",
    "The lens of the headlamp was already scratched when I opened the box.",
    "I was promised a call back on Monday about the broken trekking pole and nobody called.",
    "Which spare poles fit the tunnel tent from 2021, article number 77-1043?",
    "I accidentally ordered the same thing twice, please cancel order 48544.",
]

REVIEWS = [
    "Kept us dry through a week in Norway. Heavy, though, and the bag it comes in is too tight.",
    "Three stars because the shoes are comfortable, but the soles were smooth after 200 km.",
    "Best stove I have owned. Boils half a litre in under three minutes even in wind.",
    "The zip jams at the same spot every time. Support answered quickly and sent a new one.",
    "Fine for the price. Do not expect it to last more than a season.",
    "My daughter loves the colour and I love that it goes in the washing machine.",
    "Arrived late and the box was crushed, the product itself is all right.",
    "I am 1.92 m and finally a sleeping bag in which I can stretch out.",
    "The straps cut into the shoulders with more than 8 kg. For day trips it is good.",
    "Leaked on the first night. Returned it.",
    "Very bright, very light, but the battery lasts half as long as advertised.",
    "Second one I bought, the first did eleven years of service.",
    "The instructions are a joke, the tent is not: up in five minutes once you know how.",
    "Too warm for summer, too thin for winter, perfect for April.",
    "Smells odd, works well.",
    "The filter is slow but the water tastes of nothing, which is what I wanted.",
    "Customer service sent me in circles for two weeks. The jacket is good, I would not order here again.",
    "Bought for my father, who is 80 and uses it daily. The grip is excellent.",
    "The grey is a greenish grey. Otherwise exactly as described.",
    "Everything about this pot is right except the lid, which does not fit.",
]

PASSAGES = [
    "The storage room behind the shop will be closed from Monday to Thursday while the floor is sealed."
    " Deliveries go to the side entrance on Mill Lane between 7 and 9; after that the lane is used by the school."
    " Returns stay in the front until Friday and are booked as usual.",
    "We tested four fuel canisters at minus five degrees. Two delivered full pressure until they were nearly"
    " empty, one lost a third of its power after ten minutes, and one could not be lit at all until it had been"
    " warmed in a pocket. The mix with more propane did best, as one would expect, but it is also the one our"
    " supplier delivers late.",
    "Returns rose from 6.1 to 7.4 per cent in March. Almost all of the rise comes from one pair of trousers whose"
    " size chart was wrong for nine days. Without them the rate would have been 6.0. The chart was corrected on"
    " the 12th and the 340 customers concerned were offered an exchange.",
    "The parish asked whether the shop could lend ten tents for the summer fair. We have six demonstration tents,"
    " two of them without pegs. Ana suggests lending five and selling the rest of last year's stock at cost to the"
    " volunteers.",
    "Since the courier changed its cut-off from 17:00 to 15:30, orders placed after lunch leave a day later."
    " Complaints about late parcels doubled in the first week and have since fallen, partly because the basket"
    " page now says so before people pay.",
    "The new lighting uses a third of the electricity of the old tubes. It was paid for by the landlord, who in"
    " return asks for a lease of four more years. The accountant thinks the saving is worth about 1,900 a year.",
    "Between October and December the workshop repaired 212 jackets, 80 of them zips, 61 seams and the rest cuffs"
    " and pockets. A repair took 35 minutes on average and cost the customer 18. Two thirds of the customers"
    " bought something else when they collected the jacket.",
    "The climbing hall offers to sell our shoes on commission. It wants 30 per cent and takes back nothing that"
    " has been tried on. Our own margin on these shoes is 38 per cent, and every fifth pair is returned.",
    "A reader writes that our packing list for the coast path forgets sun cream, a whistle and small change for"
    " the ferry. She is right about all three. The list should also say that the ferry does not run on Mondays.",
    "The spring catalogue was printed with last year's opening hours. 4,000 copies are out. The printer offers"
    " stickers for the remaining 6,000 at no cost, if we put them on ourselves.",
    "Our stove supplier recalls all burners with serial numbers from 220400 to 221950 because a seal may leak. We"
    " sold 87 of them, 79 to customers whose address we know. The supplier pays for shipping and sends"
    " replacements in about three weeks.",
    "Half of the people who come in for a rental never return the survey. Of those who do, nine in ten were"
    " content, and the rest name the same thing: sleeping mats that do not stay inflated. We replaced twelve of"
    " thirty in June.",
    "Wednesday's stocktake found 14 head torches too few and 9 too many of another kind. The bar codes of the two"
    " had been swapped on the shelf. Five torches are really missing.",
    "The town will dig up the street from 3 September for six weeks. Customers can reach us from the market side."
    " The chamber of trade negotiates about compensation, which last time came to a tenth of what was asked for.",
    "The apprentice suggested showing the weight of every item on the shelf label. In the two weeks of the trial"
    " people asked the staff less, and bought lighter and dearer things. We keep it.",
    "Mail from our old shop system is marked as spam by two large providers since we moved hosts. The fix is a"
    " record in the domain's settings that nobody here is allowed to change; the request has been with the"
    " registrar for ten days.",
]

DOCUMENTS = [
    "Invoice 2024-1187 · Harbour Rope Works, 4 Quay Street · 12 coils static rope 10 mm at 84.50 · due 30 June",
    "Order by phone, Mrs Okafor, 14:20: two adult ponchos L, one child's 128, red, to be collected on Saturday morning",
    "Delivery note 55310: 40 gas canisters 230 g, 8 of them dented, accepted with reservation, driver J. Petit",
    "Reminder: membership of the mountain rescue fund, 120.00 a year, payable by 1 March, reference MRF-0098",
    "Minutes, 4 May. Present: Ana, Tom, Li. Decided: close at 18:00 on Fridays from June. Tom orders new keys by"
    " the 20th.",
    "Quote no. 7731: repaint shop front 2,340.00 plus VAT 20 %, valid 60 days, work takes four days, J. Brandt &"
    " Daughter",
    "Repair slip R-2291: blue jacket, Ms Lindqvist, left cuff torn, promised for Thursday, 18.00 paid in advance",
    "Lost property: black glove, left hand, size 9, found near the fitting rooms on 17 November by Li",
    "Train for the fair: leave 06:42 from platform 3, change at Crewe 08:15, arrive 10:05, return ticket 64.20",
    "Insurance: claim 88-1204-C, water damage 9 January, excess 250.00, assessor Mr Rowe visits on the 23rd at 11:00",
    "Rental contract 0419: tent for four, 2 to 9 August, deposit 150.00, returned with one pole bent",
    "E-mail from the supplier: article 77-1043 is discontinued, successor 77-2043, 12 per cent dearer, available"
    " week 36",
]

NOTICES = [
    "Please keep the fire door closed.",
    "Returns are accepted within 30 days with the receipt.",
    "This week only: second pair of socks at half price.",
    "The fitting rooms are on the first floor, to the left of the stairs.",
    "We are closed on Monday for stocktaking.",
    "Do not use the stove inside the tent.",
    "Ask us to wax your jacket while you wait.",
    "Dogs are welcome, also wet ones.",
    "Card payments from any amount.",
    "Gas canisters are kept behind the counter.",
]

LABELS = "delivery, payment, product fault, return, account, question, other"
FIELDS = "kind of document, who, what, amount with currency if any, date or deadline if any"


def jobs() -> Iterator[tuple[str, str, str, int]]:
    """Yield (name, instruction, text, max_tokens) of every request."""
    for text in TICKETS:
        yield "label", f"Answer with one label for this support ticket: {LABELS}.", text, 32
    for text in TICKETS:
        yield (
            "reply",
            "Draft a friendly reply of two or three sentences. Promise nothing that is not certain.",
            text,
            120,
        )
    for text in REVIEWS:
        yield "sentiment", "Is this review positive, negative or mixed? Answer with one word.", text, 32
    for text in REVIEWS:
        yield "aspects", "List what this review praises and what it criticises, as two short lists.", text, 80
    for text in PASSAGES:
        yield "summary", "Summarise this note in one sentence.", text, 60
    for text in PASSAGES:
        yield "title", "Give this note a title of at most six words.", text, 32
    for text in DOCUMENTS:
        yield "extract", f"Return a JSON object with these fields, null where unknown: {FIELDS}.", text, 120
    for text in DOCUMENTS:
        yield "action", "What has to be done, by whom and by when? One line, or the word nothing.", text, 40
    for language in ("French", "German"):
        for text in NOTICES:
            yield f"translate-{language.lower()}", f"Translate this shop notice into {language}.", text, 60
    yield "digest", "Name the three complaints that occur most often in these tickets.", "\n".join(TICKETS), 120
    yield "digest", "Which product should we look at first? Answer in two sentences.", "\n".join(REVIEWS), 80
    yield "digest", "Write a five-line newsletter for the staff from these notes.", "\n".join(PASSAGES), 200
    yield "digest", "List everything that costs money, with the amounts.", "\n".join(DOCUMENTS), 160


def lines() -> Iterator[str]:
    """Yield the file's lines, each one request of an OpenAI batch input file."""
    for number, (name, instruction, text, max_tokens) in enumerate(jobs(), start=1):
        messages = [{"role": "system", "content": instruction}, {"role": "user", "content": text}]
        body = {"model": MODEL, "messages": messages, "max_tokens": max_tokens, "temperature": 0}
        yield json.dumps(
            {"custom_id": f"{number:03d}-{name}", "method": "POST", "url": TARGET, "body": body}, ensure_ascii=False
        )


if __name__ == "__main__":
    FILE.write_text("".join(line + "\n" for line in lines()), encoding="utf-8")
